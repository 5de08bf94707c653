"""The shapes of bars, counters and log prefixes that trainings print. Travels with the agent."""

from __future__ import annotations

import re

TQDM = re.compile(  # in a narrow terminal and in notebooks it has no bar
    r"^(?P<title>.*?)\s*\d{1,3}%(?:\|[^|]*\||(?=\s\d+/\d+ \[\d+:\d\d))\s*(?P<done>\d+)/(?P<total>\d+)"
    r"\s*(?P<rest>\[.*)?$"
)
NOTEBOOK = re.compile(  # transformers' own, as cells are saved
    r"^\[\s*(?P<done>\d+)/(?P<of>\d+) [\d:]+ < [\d:]+.*?\bEpoch (?P<epoch>[\d.]+)/(?P<epochs>\d+)\]"
)
THIN_BAR = re.compile(  # of Ultralytics from 8.3.200 on and of Lightning's RichProgressBar
    r"^(?P<title>.*?)\s*(?:\d{1,3}%\s*)?(?<![\u2500\u2501\u2574-\u257f])[\u2500\u2501\u2574-\u257f]{2,}\s*(?P<done>\d+)/(?P<total>\d+)\s(?P<rest>.*)$"
)
ENDLESS = re.compile(r"^(?P<title>[^|]*?)\s*\d+(?:it|ex|examples|B|tokens)\s*\[\d+:\d+,")
KERAS = re.compile(r"^\s*(?P<done>\d+)/(?P<total>\d+|Unknown)\s+(?:\[[=>.\s]*\]|\u2501+|-)(?P<rest>.*)$")
HASHES = re.compile(r"^(?P<title>[^|]*)\|[#\u2588-\u258f -]*\|\s*\((?P<done>\d+)/(?P<total>\d+)\)(?P<rest>.*)$")
PREFIX = re.compile(  # times, levels, places and ranks before what a program says
    r"^\s*(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?|\[\d\d/\d\d [\d:]+[^\]]*\]:?"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?|\d\d/\d\d/\d{4} [\d:]+|\d{1,3}(?:\.\d{1,3}){3}:|\(\d+/\d+\)"
    r"|\(\w+ pid=\d+[^)]{0,60}\)|\[default\d+\]:|\[\d+,\d+\]<std(?:out|err)>:|std(?:out|err) [FP]\b"
    r"|INFO:\w+:|[IWE]\d{4} [\d:.]+ +\d+ [\w./]+:\d+\]|\[?(?:INFO|DEBUG|WARNING)\]?:?|\[[\w.]+\.py:\d+(?::\w+)?\]"
    r"|\[rank:? ?\d+\]:?|\[Rank \d+\]|\[titan\]|- root|- \w+(?= - )|\w+(?:\.\w+)+(?= - )| - |-|:|\|)\s*",
    re.IGNORECASE,
)
EPOCH = re.compile(
    r"(?P<phase>\b(?:train|val|valid|validation|test|eval)\w*[ :\-_]*)?\b(?:epochs?|ep)\b\s*"
    r"(?:\((?P<kind>\w+)\))?\s*[:#=]?\s*"
    r"(?P<bracket>\[?)\s*(?P<epoch>\d+(?:\.\d+)?)\s*(?:(?:/|of)\s*(?P<total>\d+))?\s*\]?"
    r"(?P<batch>[,:]?\s*\[\s*(?P<done>\d+)\b(?!\.?\d*\s*%)\s*(?:/\s*(?P<of>\d+))?[^\]]*\])?",
    re.IGNORECASE,
)
TRAIN_BRACKET = re.compile(
    r"^train(?:ing)?:?\s*(?P<epoch>\d+)\s*(?:/(?P<epochs>\d+)\s*)?(?:\(\s*\d+%\)\s*)?"
    r"\[\s*(?P<done>\d+)\s*/\s*(?P<of>\d+)",
    re.IGNORECASE,
)
# Composer: it counts batches of the whole run where the run's length is given in batches.
RUN_BATCH = re.compile(r"^\[batch=(?P<done>\d+)/(?P<of>\d+)\]:?$")
EVALUATES = (
    re.compile(  # after an epoch, `Epoch 1, validation: loss=0.2` (icefall); or before a value, `Evaluating test:`
        r"^\s*[,|\-]?\s*(?:validation|valid|val|eval(?:uation)?|test)(?: set| results?)?\s*:", re.IGNORECASE
    )
)
ITER_BRACKET = re.compile(
    r"\biter(?:ation)?\s*\((?P<kind>\w+)\)\s*\[\s*(?P<done>\d+)\s*/\s*(?P<of>\d+)\s*\]", re.IGNORECASE
)
STEP = re.compile(
    r"(?<![\w/])(?P<name>(?:global|train|training|optimizer|completed|current|learning)?[ _/]?"
    r"(?:steps?|iters?|iterations?|updates?)|num_updates|it)"
    r"\s*(?P<sign>[:=#]|\s|\[)\s*\[?\s*(?P<done>\d[\d,]*)(?P<point>\.\d+)?"
    r"\s*(?:(?:/|of)\s*(?P<of>\d[\d,]*))?(?![\w%])",
    re.IGNORECASE,
)
STEP_ALONE = re.compile(
    r"^(?:global |train(?:ing)? )?(?:step|iter|iteration) \d+\s*(?:$|[,;|(]|done\b|- |per-step\b)", re.IGNORECASE
)
GLOBAL_STEP = re.compile(
    r"(?<!\w)(?:trainer/)?(?:global[_ ]|g_)steps?\s*[:= ]\s*(?P<done>\d[\d,]*)(?:\.0+)?(?:\s*/\s*(?P<of>\d[\d,]*))?"
    r"(?![\w.%/])",
    re.IGNORECASE,
)
BATCH = re.compile(
    r"(?<![\w/])(?:batch|batch_idx|micro_?batch)\b\s*[:=#]?\s*\[?\s*(?P<done>\d+)\s*(?:(?:/|of)\s*(?P<of>\d+))?(?![\w.])",
    re.IGNORECASE,
)
SAMPLES = re.compile(r"\[\s*(?P<done>\d+)\s*/\s*(?P<of>\d+)\s*\]")
TORCHTUNE = re.compile(r"^(?P<epoch>\d+)\|(?P<step>\d+)\|")
BOOSTING = re.compile(r"^(?:\[(?P<step>\d+)\]:?\s+(?=\S+[:'])|(?P<trees>\d+):\s+(?=learn: ))")  # or CatBoost's
BEST_FOLLOWS = re.compile(r"\bbest iteration is:?$", re.IGNORECASE)  # LightGBM
EVAL_TAG = re.compile(r"\[\s*(?:test|val(?:id(?:ation)?)?|eval(?:uation)?)\s*\]\s*(?=\w)", re.IGNORECASE)
CHORES = re.compile(
    r"\b(sav(e|ed|ing)|load(ed|ing)?|resum(e|ed|ing)|restor(e|ed|ing)|checkpoints?|summary|download(ed|ing)?|best"
    r"|skipping|warm-?up|scheduler|will|every|max|total steps|num(ber of)?)\b",
    re.IGNORECASE,
)
VALID_ON = re.compile(r"\bvalid on '[^']*' subset")  # fairseq
IS_RUNNING = re.compile(r"\bvalid on '[^']*' subset:?\s*\d+ / \d+")
ITER_AND_STEP = re.compile(r"\biter \d+ (?:\| )?step (?P<step>\d+)\b")  # litgpt: batches, and steps of the optimizer
OF_THE_PAST = re.compile(  # the best so far, and the step that a checkpoint has
    r"[=>\-*\s]*(?:(?:new |current )?best|(?:successfully )?(?:load|resum|restor|sav)(?:ed|e|ing))\b", re.IGNORECASE
)
TIMER = re.compile(r"\btime \(ms\) \|")
# The names of a training's loss, the most certain first.
PLAIN_LOSS = (
    "loss", "total_loss", "loss/total", "loss_total", "train_loss", "train/loss", "training_loss",
    "train/total_loss", "loss/train/total", "loss/train", "lm_loss", "reduced_train_loss", "avr_loss", "avg_loss",
    "average_loss", "mean_loss", "step_loss", "loss_step", "train_loss_step", "train/loss_step", "running_loss",
    "batch_loss", "trainloss", "tr_loss", "loss_train", "loss_train_(curr)", "loss/total_loss",
    "train_loss/train/total", "train/crossentropyloss",
)  # fmt: skip
