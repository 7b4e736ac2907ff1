"""Learning at a site: models, the two-term loss, local training, class sums, evaluation. Needs torch."""
