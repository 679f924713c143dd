"""Global hooks, kept and never called."""

hooks = []


def register_optimizer_step_pre_hook(hook):
    hooks.append(hook)


def register_optimizer_step_post_hook(hook):
    hooks.append(hook)
