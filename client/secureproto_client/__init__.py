"""The site's side: connects out, trains on the site's own data, and never sends two different updates."""
