"""The files below a project's state folder: what should run, requests, runs. No judgement here."""
