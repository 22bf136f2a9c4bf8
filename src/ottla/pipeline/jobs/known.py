"""The jobs by name, and their modules. Imports none of them."""

from importlib import import_module
from typing import Final

from ottla.pipeline.jobs.port import Job, JobContext

# Name -> the module of its `open_job(context)`.
JOBS: Final = {
    "collect": "ottla.pipeline.jobs.collect",
    "income_and_tasks": "ottla.pipeline.jobs.income_and_tasks",
    "device_switching": "ottla.pipeline.jobs.device_switching",
    "invite_fraud": "ottla.pipeline.jobs.invite_fraud",
    "phone_region": "ottla.pipeline.jobs.phone_region",
}


def open_job(name: str, context: JobContext) -> Job:
    job: Job = import_module(JOBS[name]).open_job(context)
    assert job.name == name, f"{JOBS[name]} makes a job called {job.name}"
    return job
