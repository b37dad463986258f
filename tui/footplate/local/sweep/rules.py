"""The rules by which sweeps run here: one table, for the log of each sweep and for the docs.

Source: Azure, how-to-tune-hyperparameters and reference-yaml-job-sweep, where they say.
"""

from __future__ import annotations

from collections.abc import Mapping

RULES: Mapping[str, str] = {
    "interval": (
        "One interval is one logged value of the primary metric, a NaN too. A policy looks at a trial's n-th value where n is "
        "a multiple of evaluation_interval (0 counts as 1) and at least delay_evaluation. It looks once, when the value comes."
    ),
    "compared": (
        "A trial's n-th value is compared with what all trials had logged up to their own n-th value, those that have ended "
        "and those that were stopped too; trials that have logged fewer are left out, and failed ones."
    ),
    "best so far": "A trial's best so far is the best of its first n values; NaN and infinity are passed over.",
    "no number": "A trial without one number in its first n values is worse than every trial that has one.",
    "bandit": (
        "Stopped where its best so far is worse than the best of all by more than the slack; just at the slack it goes on. To "
        "maximize: below best / (1 + slack_factor), or below best - slack_amount. To minimize: above best * (1 + slack_factor), "
        "or above best + slack_amount. Where the best is negative the factor is of its size: best - or + |best| * slack_factor, "
        "so that the best itself is never stopped. Where both are given slack_factor counts."
    ),
    "median_stopping": (
        "Stopped where its best so far is worse than the median of the means of each trial's first n values, its own among "
        "them; equal goes on. Of an even number of means the median is the mean of the middle two."
    ),
    "truncation_selection": (
        "Stopped where its best so far is among the lowest truncation_percentage of all, the number of trials rounded down: "
        "20 % of 10 are 2, of 4 none. Of equals the trial that started later is the lower."
    ),
    "best": (
        "The best trial is the one with the best value that it ever logged, not the last. NaN and infinity never win, a failed "
        "trial never does, one that was stopped or cancelled can. Of equals the earlier trial wins."
    ),
    "random": (
        "Each trial's values come from the sweep's seed and the trial's number alone: sampling_algorithm.seed, else one that is "
        "drawn at the start and written into the log. A sweep that goes on after its process was killed draws what it would "
        "have drawn."
    ),
    "sobol": "With rule: sobol the trials are points of one scrambled Sobol sequence (SciPy's), which covers the space evenly.",
    "logbase": (
        "The bounds of loguniform and qloguniform, and mu and sigma of the log-normal kinds, are exponents: of e, else of "
        "logbase. A q rounds to the nearest multiple, an exact half to the even one."
    ),
    "grid": "Every point once, the last space's values changing first; the sweep ends when there are no more.",
    "bayesian": (
        "Optuna's tree-structured Parzen estimator, told of every trial that has ended, failed ones left out, with its best "
        "value. It draws from choice, uniform and quniform, as on Azure."
    ),
    "nested choice": "A value that is a mapping is drawn whole, its own spaces with it; the command gets it as JSON.",
    "values": (
        "A trial is an ordinary command job whose values are inputs, named as in the search space; it also sees them as "
        "AZUREML_SWEEP_<name>."
    ),
    "limits": (
        "limits.timeout cancels the sweep and its trials; a trial that runs into limits.trial_timeout fails, and the sweep "
        "goes on. Trials wait for nodes as all jobs do, and 32 at most are started at once."
    ),
    "end": (
        "A sweep is Completed when its trials have ended and one of them completed; where none did it is Failed with the first "
        "failure, and Canceled where all were cancelled. One that could not start a trial is Failed with the reason. A trial "
        "that a policy stopped is Canceled, with the rule and the figures in its note."
    ),
    "output": "The outputs of a completed sweep are those of its best trial, and what the file registers is registered of it.",
}
"""The rules of this workspace, by what they are for: Azure's where it documents one, ours where it does not."""
