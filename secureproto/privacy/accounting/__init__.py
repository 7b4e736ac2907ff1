"""What releases cost: pure mathematics over events, no state, no clock, no file.

1. `tally`     a composition as numbers of equal steps; everything below reckons with it.
2. `rdp`       Rényi differential privacy at many orders, and `Filter`, the gate: one order, fixed with the budget.
3. `pld`       privacy loss distributions, for a plan that was declared before; never below `lower`, or an alarm.
4. `gaussian`  the closed form, `lower` a bound that no accountant may go below.
5. `quote`     the figures with everything that has to stand beside an ε.

Source: PRIVACY.md, "Accounting". All but `tally` load scipy, and `rdp`, `pld` and `quote` dp-accounting: import late.
"""
