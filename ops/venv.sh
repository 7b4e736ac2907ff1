# Sourced by ops/demo and ops/test: one virtual environment in .venv, made again only when pyproject.toml changed.
# PYTHON names another interpreter; PIP_ARGS are passed to pip (for a CPU-only torch: see the README).

make_venv() { # root, extras
  local root=$1 extras=$2 python=${PYTHON:-python3} stamp have
  stamp=$(sha256sum <"$root/pyproject.toml")
  have=$(cat "$root/.venv/stamp" 2>/dev/null || true)
  if [ -x "$root/.venv/bin/secureproto" ] && { [ "$have" = "$extras $stamp" ] || [ "$have" = "all $stamp" ]; }; then
    return
  fi
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "error: $python is missing or older than Python 3.11" >&2
    echo "hint: apt-get install python3 python3-venv, or PYTHON=/path/to/python3.11 $0" >&2
    exit 2
  fi
  if ! "$python" -m venv "$root/.venv"; then
    echo "error: $python cannot make a virtual environment" >&2
    echo "hint: apt-get install python3-venv" >&2
    exit 2
  fi
  echo "installing into .venv (torch is large; minutes on a slow line) ..." >&2
  # shellcheck disable=SC2086 - PIP_ARGS is a list of words
  "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check ${PIP_ARGS:-} -e "$root[$extras]"
  echo "$extras $stamp" >"$root/.venv/stamp"
}
