"""A study's plan and the accountant together: what a round costs, what a budget buys, how long it lasts."""
