"""The files below a project's state folder: desired state, requests, runs. Nothing here decides."""
