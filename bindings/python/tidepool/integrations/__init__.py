"""What tells training frameworks' own logs about Tidepool: a module for each framework.

Each imports its framework, and nothing imports a module here but the job that uses it:
`tidepool.integrations.transformers`, `.lightning`, `.accelerate`.
"""
