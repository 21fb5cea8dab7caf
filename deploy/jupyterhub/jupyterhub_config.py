"""A hub that gives everybody a container, and a course one that is shared.

Beside it: `course.py`, and an authenticator of your institution.
"""

# ruff: noqa: F821
import os

c = get_config()
load_subconfig("course.py")

c.JupyterHub.bind_url = "http://:8000"
c.JupyterHub.hub_bind_url = "http://:8081"
c.JupyterHub.hub_connect_url = "http://hub:8081"
c.JupyterHub.db_url = "sqlite:////srv/state/hub.sqlite"
c.JupyterHub.cookie_secret_file = "/srv/state/cookie_secret"

# Put your institution's authenticator here; this one lets in whoever knows the password.
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = os.environ["HUB_PASSWORD"]
c.Authenticator.allow_all = True

c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
c.DockerSpawner.image = os.environ.get("SINGLEUSER_IMAGE", "nbinline-singleuser")
c.DockerSpawner.network_name = os.environ["HUB_NETWORK"]
c.DockerSpawner.volumes = {"nbinline-{username}": "/home/jovyan"}
c.DockerSpawner.remove = True
c.Spawner.mem_limit = "2G"
c.Spawner.cpu_limit = 2

# Vendors' keys stay in the gateway. Each server gets a token of its own for it, see keys.md.
load_subconfig("gateway.py")
