"""What tests must not inherit from whoever starts them.

A shell without job control starts what it puts into the background with SIGINT ignored, and children inherit that:
Ctrl-C, and Ray's way to end a job that is no longer wanted, would do nothing in any process of the tests.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
