"""Trains networks of training_jobs.py, and ends as jobs do: traced_job.py CASE..."""

import gc
import sys

import torch
import training_jobs

torch.manual_seed(0)
gc.disable()  # so that every run frees what it frees at the same places
for name in sys.argv[1:]:
    training_jobs.CASES[name]()
    torch.cuda.synchronize()
