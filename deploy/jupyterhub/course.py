"""JupyterHub settings of a course with one server that everybody shares.

Take it into your own `jupyterhub_config.py` (`load_subconfig("course.py")`), which adds an
authenticator, a spawner and a proxy. The groups' members are the hub's own business: fill them
here, on the admin page, or from the authenticator (`c.Authenticator.manage_groups = True`).
"""

# ruff: noqa: F821
import os
import sys

c = get_config()

COURSE = os.environ.get("COURSE", "course")
"""The account whose server is shared. Nobody logs in as it."""

INSTRUCTORS = f"{COURSE}-instructors"
STUDENTS = f"{COURSE}-students"

c.JupyterHub.load_groups = {
    INSTRUCTORS: {"users": os.environ.get("COURSE_INSTRUCTORS", "").split()},
    STUDENTS: {"users": os.environ.get("COURSE_STUDENTS", "").split()},
}

c.JupyterHub.load_roles = [
    {
        "name": f"{COURSE}-members",
        "description": "Work on the shared server",
        "groups": [INSTRUCTORS, STUDENTS],
        "scopes": [f"access:servers!user={COURSE}"],
    },
    {
        "name": f"{COURSE}-instructors",
        "description": "Start and stop the shared server",
        "groups": [INSTRUCTORS],
        "scopes": [
            "list:users",
            f"read:users!user={COURSE}",
            f"servers!user={COURSE}",
            "admin-ui",
        ],
    },
    {
        "name": "idle-culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle-culler"],
    },
]

# A server with a run going reports activity every few seconds, so the culler lets it finish.
c.JupyterHub.services = [
    {
        "name": "idle-culler",
        "command": [
            sys.executable,
            "-m",
            "jupyterhub_idle_culler",
            f"--timeout={os.environ.get('CULL_AFTER', '3600')}",
            f"--cull-every={os.environ.get('CULL_EVERY', '60')}",
        ],
    }
]

c.JupyterHub.allow_named_servers = True

# Whoever is in that group may watch, stop and pause; the hub tells it with each login.
c.Spawner.args = [f"--NbinlineApp.instructors=@{INSTRUCTORS}"]
