"""A run whose folder is open: what its attempts share."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Checkpoint
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.adoption import adopt, link
from agentcompass.components.execution.attempt import Stages
from agentcompass.components.execution.board import Board
from agentcompass.components.execution.capacity import Slots, Unlimited
from agentcompass.components.execution.earlier_work import tries_on_disk
from agentcompass.components.execution.fingerprint import digest
from agentcompass.components.execution.images_now import images_now
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts
from agentcompass.components.results.numbers_shown import count
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)


@dataclass
class OpenRun:
    plan: RunPlan
    parts: Parts
    fingerprint: Mapping[str, object]
    store: RunStore
    board: Board
    stages: Stages
    slots: Slots = field(default_factory=Unlimited)
    adopted: dict[tuple[str, int], float | None] = field(default_factory=dict)
    """Task id and attempt → value, for the attempts taken over from an earlier run; None: it
    stands without a score."""
    checkpoints: dict[tuple[str, int], Checkpoint] = field(default_factory=dict)
    """Taken over, and still to be judged."""
    rescored_from: str | None = None
    """The run whose checkpoints are judged again: then no agent runs."""
    before: dict[tuple[str, int], AttemptRecord] = field(default_factory=dict)
    """What is known of the attempts that are judged or made again, what they cost included;
    without their verdicts."""
    as_it_was: dict[str, Sample] = field(default_factory=dict)
    """By id, the tasks of which a rescored run keeps every outcome: they are told as they were
    when those were given."""
    provenance: Mapping[str, object] = field(default_factory=dict)
    """For run.json: where the work of this run comes from."""

    def next_try(self, key: AttemptKey) -> AttemptKey:
        """The key of the attempt's next execution, whose number is above every earlier one's."""
        tries = tries_on_disk(self.store, key)
        return key.model_copy(update={"physical": max([key.physical, *(n + 1 for n in tries)])})

    def adopt_from(
        self,
        source: RunStore,
        samples: Sequence[Sample],
        images: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        """Take over what stands of an earlier run, or of this one. Blocking.

        `images`: `images_now` of the samples, where the caller has asked for it.
        """
        known = {sample.task.id: sample for sample in samples}
        verification = self.parts.verification
        if images is None:
            images = images_now(self.parts, samples)
        unknown = 0
        for task_id, found in adopt(self.plan, verification, images, samples, source, self.store):
            if not images.get(task_id):
                made_in = [one.image for one in found.records]
                made_in += [one.image for one in found.checkpoints.values()]
                unknown += sum(image is not None for image in made_in)
            for record in found.records:
                self.adopted[task_id, record.key.index] = record.value or 0.0
                self.board.adopted(record)
                self._link_stages(source, known[task_id], record.key, "agent", "score")
            self.before |= {(task_id, index): one for index, one in found.before.items()}
            for index, checkpoint in found.checkpoints.items():
                self.checkpoints[task_id, index] = checkpoint
                self._link_stages(source, known[task_id], checkpoint.key, "agent")
        log.info(
            "%s: %s scored, %s to be judged",
            "what stands" if source is self.store else f"taken over from run {source.run_id}",
            count(len(self.adopted), "attempt"),
            len(self.checkpoints) or "none",
        )
        if unknown:
            log.info("the images of %d of them were not compared with those of today", unknown)

    def _link_stages(self, source: RunStore, sample: Sample, key: AttemptKey, *stages: str) -> None:
        """Prefect's own records of the stages, so that it too takes them from its cache."""
        if source is self.store:
            return
        job = self.job(sample, key)
        self.store.folder.stages.mkdir(exist_ok=True)
        for name in (job.stage_key(stage) for stage in stages):
            if (source.folder.stages / name).is_file():
                link(str(source.folder.stages / name), str(self.store.folder.stages / name))

    def job(self, sample: Sample, key: AttemptKey) -> Job:
        depends_on = digest([self.fingerprint, sample.content_hash])
        settings = self.plan.request.execution
        return Job(self.store.run_id, key, sample, settings, depends_on)
