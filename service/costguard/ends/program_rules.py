"""Rules for a bug of the program, for launchers' words on any end, and for a wait. Pure."""

from __future__ import annotations

import re

from costguard.ends.rule import Rule, message, rules, said
from costguard.ends.rules import COLLECTIVE, DISK, GPU_MEMORY, HARDWARE, HOST_MEMORY, NAN, NETWORK, SHARED_MEMORY
from costguard.ends.values import EndClass, Proof, Rank
from costguard.model.attempt import Retry

_SHAPES = (
    r"mat1 and mat2 shapes|size mismatch|must match the size|shape '?\[.*\]'? is invalid|"
    r"stack expects each tensor|Given groups=|Sizes of tensors must match|"
    r"expected (?:scalar type|all tensors|object of|input)|Expected all tensors|should be the same|"
    r"Error\(s\) in loading state_dict|Missing key\(s\)|Unexpected key\(s\)|modified by an inplace operation|"
    r"Expected to have finished reduction|does not require grad|backward through the graph|ready only once|"
    r"DataParallel.*parameter|dimension out of range|index .{0,40}out of (?:bounds|range)|Output \d+ of|"
    r"not implemented for '|incompatible shapes|Cannot broadcast|"
    r"(?:shapes?|dimensions?) .{0,60}(?:not aligned|do(?:es)? not match|mismatch)"
)
_SETUP = (
    r"no kernel image is available|not compiled with CUDA|undefined symbol|cannot open shared object file|"
    r"command not found|unrecognized arguments|the following arguments are required|"
    r"can't open file|No such file or directory|Permission denied|"
    r"Duplicate GPU detected|invalid device ordinal|Too many open files|"
    r"Errno 24\b|does not exist\b.*(?:Error|file)|Invalid usage|ncclInvalidUsage|"
    r"ncclInvalidArgument|CUDA_HOME|GLIBCXX_|GLIBC_"
)
_BUGS = (
    r"\b(?:TypeError|KeyError|ValueError|AttributeError|ImportError|ModuleNotFoundError|IndexError|NameError|"
    r"UnboundLocalError|AssertionError|SyntaxError|IndentationError|NotImplementedError|ZeroDivisionError|"
    r"FileNotFoundError|IsADirectoryError|NotADirectoryError|FileExistsError|PermissionError|RecursionError|"
    r"JSONDecodeError|Unicode\w+Error|OverflowError|LookupError|UnpicklingError|ValidationError|"
    r"InvalidArgumentError|TabError|MisconfigurationException|ConfigAttributeError|"
    r"ConcretizationTypeError|TracerArrayConversionError|UnexpectedTracerError|HFValidationError|"
    r"InstantiationException|BackendCompilerFailed|OutOfResources)\b"
)

# What the CUDA runtime, PyTorch and Docker print where a VM shows no GPU (CUDA Runtime API, 5.3 and 6.41;
# torch/cuda/__init__.py; nvidia-container-cli). An image without a driver prints the same on every VM.
MISSING_GPU = Rule(
    re.compile(
        r"CUDA driver version is insufficient|no CUDA-capable device is detected|Found no NVIDIA driver on your system|"
        r"No CUDA GPUs are available|could not select device driver",
        re.IGNORECASE,
    ),
    EndClass.PROGRAM,
    Rank.CAUSE,
    Proof.ENDED,
    said("no GPU with a working driver was found"),
    retry=Retry.OTHER_VM,
)

PROGRAM = [
    *rules(EndClass.PROGRAM, Rank.CAUSE, Proof.ENDED)(
        r"Assertion\s+[`'\"].+failed|Assertion .{0,200}\bfailed\b|device-side assert|\bassert\b.*failed",
        cause=message,
    ),
    *rules(EndClass.PROGRAM, Rank.CAUSE, Proof.ENDED)(f"(?:{_SHAPES}|{_SETUP})", cause=message),
    *rules(EndClass.PROGRAM, Rank.CAUSE, Proof.ENDED)(_BUGS, cause=message, flags=0),
    *rules(EndClass.PROGRAM, Rank.LIKELY, Proof.ENDED)(
        r"address .{0,20}already in use|EADDRINUSE|"
        r"unhandled cuda error|ncclUnhandledCudaError|illegal memory access|misaligned address|"
        r"illegal instruction was encountered|unspecified launch failure|"
        r"CUDA_ERROR_(?:ILLEGAL_ADDRESS|LAUNCH_FAILED|INVALID_VALUE)|"
        r"invalid (?:argument|configuration|program counter)|CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+|"
        r"Segmentation fault|SIGSEGV|signal 11\b|signal: ?11\b|"
        r"(?:exitcode|return ?code|exit code)\W{1,4}(?:-11|139)\b|Fatal Python error|double free|corrupted size|"
        r"free\(\): invalid|malloc\(\): |stack smashing|exit(?:ed|s)? with (?:exit )?code 139",
    ),
]

# An exception by its name alone, or a C++ one.
_ANY_EXCEPTION = (
    r"(?<![\w.'\"`])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure)(?::|\(|\s*$)|what\(\):|"
    r"^\W*(?:panic|FATAL|fatal error):"
)
GENERAL = rules(EndClass.PROGRAM, Rank.LIKELY, Proof.ENDED)(_ANY_EXCEPTION, flags=0)

# Ended from outside: by neither the kernel nor the program.
OUTSIDE = [
    *rules(EndClass.UNKNOWN, Rank.CAUSE, Proof.ENDED)(
        r"CANCELLED AT .*|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAIL\w*)|walltime .{0,20}exceeded",
        cause=message,
    ),
    *rules(EndClass.UNKNOWN, Rank.LIKELY, Proof.ENDED)(
        r"\bKeyboardInterrupt\b|SignalException|got signal: ?(?:15|2|1)\b",
    ),
]

# What launchers print of processes that they end themselves, and of ends that others caused.
_ABORTS = rules(EndClass.UNKNOWN, Rank.ECHO, Proof.ENDED)(r"terminate called")
LAUNCHERS = rules(EndClass.UNKNOWN, Rank.ECHO, Proof.ENDED)(
    r"ChildFailedError|ProcessRaisedException|CalledProcessError|sigkill_handler|Killing subprocess|"
    r"closing signal SIG\w+|forcefully exiting via|Sending process|exitcode\W{1,4}(?:1|-6|-15|143)\b|SIGABRT|"
    r"SIGTERM|core dumped|\bAborted\b|taking the entire process down|Terminating process|srun: error|"
    r"exits? with return code|mpirun noticed|Primary job terminated|exit(?:ed)? FAILED|\bexit code \d+|"
    r"non-zero (?:status|exit)|Root Cause|exit status [1-9]|Process \d+ exited",
)

STALLS = rules(EndClass.HANG, Rank.STALL, Proof.WAITS)(
    r"\b(?:hangs?|hung|hanging|stuck|deadlock(?:ed)?|frozen|freezes)\b(?!.{0,20}\b(?:layer|param|weight|backbone|"
    r"encoder))|\bblocked (?:in|on|at|for)\b|no (?:further|more|new) (?:output|progress|log)|\bstalled\b|"
    r"Stalled ranks|tensors were submitted to be reduced|waiting for .{0,60}for \d+ ?(?:s|sec|min|h)|"
    r"not making progress|never (?:returns?|finish\w*|complet\w*|proceeds?)\b|blocked for more than \d+ seconds|"
    r"soft lockup",
)

# Where a log stops that ends in a wait: the last thing printed begins what all ranks do together.
ENTERS_A_WAIT = re.compile(
    r"Running collective|Initializing distributed|distributed init|init_process_group|process group|rendezvous|"
    r"store_based_barrier|store based barrier|distributed processes registered|GLOBAL_RANK|"
    r"Reducer buckets have been rebuilt|NCCL INFO.*(?:Init (?:START|COMPLETE)|Launch mode|Connected all|"
    r"Channel \d|Trees? |comm 0x|Ring \d|Using network|threadThresholds|coll channels|Setting affinity)|"
    r"Initializ\w+ (?:NCCL|torch\.?distributed|TorchBackend|process|JAX|TPU|the distributed)|"
    r"(?:Loading|Using|Building|Emitting) .{0,60}(?:extension|ninja)|ninja: no work to do|\b0%\|.*\| ?0/\d+ \[|"
    r"sync_global_devices|\b(?:barrier|all_?reduce|all_?gather|broadcast)\b|\bwaiting (?:for|on|at)\b|\bWaiting\b",
    re.IGNORECASE,
)

RECOVERED = re.compile(
    r"\b(?:resumed|recovered|continued|went on|unblocked|carried on|finished (?:anyway|normally)|"
    r"proceeded)\b(?!.{0,30}\bfrom (?:a |the )?(?:checkpoint|step|epoch))",
    re.IGNORECASE,
)
FINISHED = re.compile(
    r"`?Trainer\.fit`? stopped: `?max_(?:epochs|steps)|training (?:completes?|completed|finished|done)\b|"
    r"'train_runtime'|finished training|Training completed|all (?:epochs|steps) (?:are )?done",
    re.IGNORECASE,
)
PREPARES_DATA = re.compile(
    r"(?:Generating \w+ split|Tokeniz\w+|Running tokenizer|Map\b|Filter\b|Grouping texts|Preprocess\w*|Packing|"
    r"Extracting|Downloading|Saving the dataset|Flattening|Casting)[^|\n]*?(?:\d+ examples|\d+/\d+|\d+%\|)",
    re.IGNORECASE,
)

# Lines that look like an end and are none: information, advice, code in a traceback.
NOISE = re.compile(
    r"\bNCCL INFO\b|\b(?:User|Future|Deprecation|Runtime|Resource|Syntax)Warning\b|to avoid deadlocks|"
    r"^\W*(?:For debugging consider|Compile with|CUDA kernel errors might)|TOKENIZERS_PARALLELISM|^\s*File \"|"
    r"^\s*(?:frame )?#\d+|^\s*\^+\s*$|can only test a child process|Exception ignored in|leaked semaphore|"
    r"^\W*(?:error_file|traceback *: *To enable)|stack trace of the failed collective|FlightRecorder|"
    r"dump debug info|severity=Corrected|Corrected error|\bRetrying\b|\bwill retry\b|\[Retry \d|(?-i:\bDEBUG\b)",
    re.IGNORECASE,
)
HANDLES_ANOTHER = re.compile(r"During handling of the above exception|direct cause of the following exception")

TABLE: tuple[Rule, ...] = (
    *HARDWARE, *SHARED_MEMORY, *GPU_MEMORY, *DISK, *NAN, *PROGRAM[-1:], *COLLECTIVE, *_ABORTS, *NETWORK[:4],
    *OUTSIDE, *HOST_MEMORY, *NETWORK[4:], MISSING_GPU, *LAUNCHERS, *PROGRAM, *GENERAL, *STALLS,
)  # fmt: skip
