"""The names of policies, made by bindings/python/generate_policies.py.

They come from remat/policies/table/policy_table.cpp.
"""

OWN_POLICIES = (
    "planned",
    "needed-cost",
    "next-use",
)
# Published ones, for comparison.
BASELINES = (
    "coop",
    "dtr",
    "dtr-eq",
    "dtr-local",
    "lru",
    "size",
    "msps",
    "dte",
    "delta",
    "random",
)
# Names that policies had before: what they are called now.
OLD_POLICIES = {"need1": "needed-cost"}
