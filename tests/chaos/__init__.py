"""Trainings that are struck at random moments, and must end as if nothing had happened.

seed -> plans: which blow, on whom, when -> playing: `tfdist run`, again and again like an outer
scheduler, with `victim` around the worked example -> judging: weights, rows, times, what is
left behind -> report

python -m tests.chaos --seed 7 --counts term=20,kill=5
python -m tests.chaos --seed 7 --plan term-13
"""
