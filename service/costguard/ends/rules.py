"""Rules for the messages of the kernel, CUDA, NCCL, PyTorch, DeepSpeed, JAX and TensorFlow on causes outside the
program. Pure.

The tables are read from top to bottom: the first rule that fits a line decides.
"""

from __future__ import annotations

import re

from costguard.ends.gpu_memory import memory_cause
from costguard.ends.rule import Rule, rules, said
from costguard.ends.values import EndClass, Proof, Rank

# NVIDIA's Xid errors, by the table of causes and the catalogue of docs.nvidia.com/deploy/xid-errors (November 2026).
_NUMBER = re.compile(r"Xid \([^)]*\): (\d+)|\bXid(?: error)?[ :]+(\d+)", re.IGNORECASE)
# "Graphics engine exception", "memory page fault", "illegal access by engine", "GPU stopped processing": a program's
# kernels, as NVIDIA says of each, far more often than the board.
_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 69, 145})
_MEANINGS = {
    48: "an error of the GPU's memory that ECC cannot correct",
    61: "the GPU's own controller stopped",
    62: "the GPU's own controller stopped",
    63: "a row of the GPU's memory is to be replaced",
    64: "a row of the GPU's memory could not be replaced",
    74: "an error of the link between GPUs (NVLink)",
    79: "the GPU has fallen off the bus",
    92: "many errors of the GPU's memory that ECC corrected",
    94: "an error of the GPU's memory, contained in one program",
    95: "an error of the GPU's memory that was not contained",
    109: "the GPU did not switch between programs in time",
    119: "the GPU's system processor does not answer",
    120: "the GPU's system processor failed",
    121: "an error of the link between GPU and CPU",
    140: "an error of the GPU's memory that ECC cannot correct",
    143: "the GPU could not be started",
    149: "an error of the link between GPUs (NVLink)",
    154: "the GPU must be reset",
}


def xid_of(line: str) -> int | None:
    match = _NUMBER.search(line)
    return int(match[1] or match[2]) if match else None


def xid_class(line: str) -> EndClass:
    """Returns the class of an Xid number; a number that NVIDIA gives no cause for here leaves the class open."""
    number = xid_of(line)
    if number in _OF_PROGRAMS:
        return EndClass.PROGRAM
    return EndClass.HARDWARE


def hardware_of_xid(line: str) -> str | None:
    number = xid_of(line)
    meaning = _MEANINGS.get(number) if number is not None else None
    return f"Xid {number}: {meaning}" if meaning else None


HARDWARE = [
    Rule(
        re.compile(r"NVRM: Xid \([^)]*\): (?P<xid>\d+)|\bXid(?: error)?[ :]+(?P<number>\d+)", re.I),
        EndClass.HARDWARE,
        Rank.CAUSE,
        Proof.NOTHING,
        hardware_of_xid,
        xid_class,
    ),
    *rules(EndClass.HARDWARE, Rank.CAUSE, Proof.NOTHING)(
        r"uncorrectable ECC|ECC_?UNCORRECTABLE|double[- ]bit ECC|DRAM uncorrectable",
        cause=said("the GPU's memory has an error that ECC cannot correct"),
    ),
    *rules(EndClass.HARDWARE, Rank.CAUSE, Proof.NOTHING)(
        r"fallen off the bus|GPU is lost|GPU_IS_LOST",
        cause=said("the VM lost the connection to its GPU"),
    ),
    *rules(EndClass.HARDWARE, Rank.CAUSE, Proof.NOTHING)(
        r"uncorrectable NVLink|cudaErrorNvlinkUncorrectable|NVLINK.{0,40}fatal",
        cause=said("a link between GPUs (NVLink) has an error that it cannot correct"),
    ),
    *rules(EndClass.HARDWARE, Rank.CAUSE, Proof.NOTHING)(
        r"\[Hardware Error\]|Machine check events? logged|EDAC .*\bUE\b|severity=(?:Uncorrected|Fatal)",
        cause=said("the kernel reports an error of the machine's hardware"),
    ),
    *rules(EndClass.HARDWARE, Rank.CAUSE, Proof.NOTHING)(
        r"Unable to determine the device handle for GPU|RmInitAdapter failed|Failed to initialize NVML|"
        r"nvidia-smi has failed because it couldn't communicate|Error 802: system not yet initialized|"
        r"all CUDA-capable devices are busy or unavailable|cudaErrorDevicesUnavailable|GSP (?:RPC|timeout)|"
        r"rpc timeout .*GSP|CUDA error: (?:a )?hardware|CUDA_ERROR_HARDWARE|hardware stack error|"
        r"cudaErrorHardwareStackError|thermal shutdown|TPU .{0,40}(?:hardware|unhealthy)|"
        r"CUDA error: unknown error|CUDA error \(?999\)?|HSA_STATUS_ERROR_HARDWARE",
    ),
]

GPU_MEMORY = rules(EndClass.GPU_MEMORY, Rank.CAUSE, Proof.ENDED)(
    r"(?:CUDA|HIP|MPS|XPU|NPU)\b(?: backend)?(?: error:?)? ?(?:driver error: )?out of memory|"
    r"CUDA_?ERROR_?OUT_?OF_?MEMORY|cudaErrorMemoryAllocation|[Cc]uda failure.{0,10}out of memory|"
    r"Failed to CUDA calloc|\btorch\.(?:cuda\.)?OutOfMemoryError|CUDA error \(?2\)?: ?out of memory|"
    r"runtime error \(2\) ?: ?out of memory",
    r"^(?!.*(?:device:CPU|message larger than)).*(?:OOM when allocating tensor|Resource[_ ]?exhausted)|"
    r"_bfc.*out of memory|out of memory in memory space (?:hbm|vmem|smem)|ran out of memory trying to allocate|"
    r"Attempting to (?:reserve|allocate) [\d.]+\w+ .*free",
    r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|"
    r"Unable to find a valid cuDNN algorithm|No available memory for the cache blocks|"
    r"(?:GPU|VRAM|device)\W{1,3}(?:is |ran )?(?:out of|memory exhausted|insufficient memory)|"
    r"Failed to allocate .*(?:on|from) (?:GPU|device)|OutOfMemory.*\b(?:GPU|device)\b|"
    r"failed to alloc .*(?:GPU|VRAM)",
    cause=memory_cause,
)

SHARED_MEMORY = rules(EndClass.HOST_MEMORY, Rank.CAUSE, Proof.ENDED)(
    r"insufficient shared memory|out of shared memory|/dev/shm.*(?:No space|full|exhaust)|"
    r"(?:unable to (?:write to|allocate|resize|mmap)|error while (?:creating|attaching)).*(?:shared memory|"
    r"/torch_|/dev/shm)|</?torch_\d+[\w/]*>.*No space left|"
    r"NCCL WARN .*(?:/dev/shm|shared memory).*(?:No space|size|fail)",
    cause=said("shared memory (/dev/shm) ran out"),
)

HOST_MEMORY = [
    *rules(EndClass.HOST_MEMORY, Rank.CAUSE, Proof.ENDED)(
        r"(?:Memory cgroup )?out of memory: kill(?:ed)? process|oom-kill:constraint|invoked oom-killer|"
        r"oom_reaper: reaped|oom-kill event|oom_kill event|OOMKilled|OOM[- ]?killed?\b|"
        r"killed (?:by|due to).{0,30}\boom\b|killed .{0,20}by the cgroup out-of-memory handler",
        cause=said("the kernel ended a process because memory ran out"),
    ),
    *rules(EndClass.HOST_MEMORY, Rank.CAUSE, Proof.ENDED)(
        r"due to memory pressure \(OOM\)|node running low on memory|OutOfMemoryError: Task was killed|"
        r"\bMemoryError\b|std::bad_alloc|Unable to allocate [\d.]+ [KMGT]iB for an array|"
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|\[enforce fail at alloc_cpu|"
        r"Cannot allocate memory|OOM when allocating tensor.*device:CPU|ArrowMemoryError|"
        r"exceeded (?:job |step )?memory limit|(?:memory|vmem|pmem|rss) .{0,20}exceeded (?:the )?(?:job )?limit|"
        r"java\.lang\.OutOfMemoryError",
    ),
    *rules(EndClass.HOST_MEMORY, Rank.CAUSE, Proof.NOTHING)(
        r"Free swap\s*=\s*\d+ ?kB|\bMem-Info:|Tasks state \(memory values in pages\)|total-vm:\d+kB",
    ),
    *rules(EndClass.HOST_MEMORY, Rank.LIKELY, Proof.ENDED)(
        r"killed by signal: ?(?:Killed|Bus error|9|7)\b|^\W*(?:\S+: line \d+: +\d+ +)?Killed\b(?! by)|"
        r"\bzsh: killed\b|died with <Signals\.SIG(?:KILL|BUS)|terminated with signal SIG(?:KILL|BUS)|"
        r"exit(?:ed|s)?(?: with)?(?: (?:return|exit|status))*[ _]?(?:code|status)?s?\W{0,5}(?:137|135|-9|-7)\b|"
        r"(?:exitcode|return ?code|exit_code)\W{1,4}(?:137|135|-9|-7)\b|signal 9\b|SIGKILL\) received|"
        r"signal: ?(?:9|7)\b|Exit(?:ing|ed)?\W{1,3}137\b|exit 137\b|Unexpected bus error|(?<!PCIe )\bBus error\b|"
        r"signal 7 \(SIGBUS\)|EXIT CODE: (?:9|7|137|135)\b|ran out of (?:(?:host|system|CPU) memory|RAM)|"
        r"(?:host|system|CPU)[- ](?:RAM )?(?:OOM|out of memory)|DataLoader worker .{0,30}exited unexpectedly",
    ),
]

DISK = [
    *rules(EndClass.DISK, Rank.CAUSE, Proof.ENDED)(
        r"No space left on device|\bENOSPC\b|Errno 28\b|not enough (?:free )?(?:disk )?space|"
        r"(?:database or )?disk is full|\bdisk (?:is )?full\b|No usable temporary directory",
        cause=said("the disk is full"),
    ),
    *rules(EndClass.DISK, Rank.CAUSE, Proof.ENDED)(
        r"Disk quota exceeded|\bEDQUOT\b|Errno 122\b|quota exceeded.*(?:disk|storage)",
        cause=said("the quota of the disk is used up"),
    ),
    *rules(EndClass.DISK, Rank.CAUSE, Proof.ENDED)(
        r"Read-only file system|\bEROFS\b",
        cause=said("the disk can only be read"),
    ),
    *rules(EndClass.DISK, Rank.CAUSE, Proof.ENDED)(
        r"PytorchStreamWriter failed|inline_container\.cc.*(?:unexpected pos|write failed)|file write failed|"
        r"\bwrite error\b|wrote \d+ \w+ instead of|Input/output error|Errno 5\b|Stale file handle|Errno 116\b|"
        r"I/O error, dev |EXT4-fs error|XFS .*(?:corruption|error)|Buffer I/O error|"
        r"(?:Can't|Unable to) (?:write|extend).*file.*(?:space|write|errno)",
    ),
]

# A single step may have it: the scaling of mixed precision begins so.
LOSS_IS_NUMBER = re.compile(r"\bloss['\"]?(?:\s*[:=]\s*|\s+)[-+]?\d", re.I)
GRADIENT_IS_NAN = re.compile(r"grad(?:ient)?s?[_ /]?norm['\"]?\W{1,4}-?nan\b", re.I)
GRADIENT_IS_NUMBER = re.compile(r"grad(?:ient)?s?[_ /]?norm['\"]?\W{1,4}\d", re.I)

NAN = rules(EndClass.NAN, Rank.CAUSE, Proof.NOTHING)(
    r"\w*loss\w*(?: \w+)?['\"\])]*\s*(?:(?:is|are|was|became|becomes?|turn(?:s|ed)?(?: in)?(?:to)?|goes(?: to)?|"
    r"went(?: to)?|=+|:|->|of)\s*)*(?:tensor\(|\[|\()?['\"]?[-+]?nan\b",
    r"\bnan[- ](?:loss|gradients?|values?|weights?|outputs?|activations?|encountered|detected|found|appeared)|"
    r"(?:non-?finite|not finite|infinite|invalid) (?:\w+ )?loss|"
    r"loss (?:is|was|has become) (?:not finite|infinite|non-?finite|inf)|NanLossDuringTraining|"
    r"returned nan values|Tensor had NaN|had (?:Inf|NaN)|(?:contains?|containing|found|detected|got|has|"
    r"to) (?:either )?\W?(?:nan|inf)\W?(?:,| and| or| values?| in\b|\W?$)|found nan\b|= nan is not finite|"
    r"FloatingPointError|Invalid loss, terminating|diverged with loss",
    r"loss scale: (?P<scale>[\d.]+), reducing to (?P=scale)(?![\d.])|loss scale already at minimum|"
    # apex's "loss scaler 0" is a number of a scaler, and skipping a step with it is sound.
    r"Minimum loss scale reached|(?:loss|grad) ?scal(?!er \d)\w*(?: to)?\W{1,6}0(?:\.0*)?(?![\d.])|"
    r"(?:loss|grad) ?scale to \d(?:\.\d*)?e-(?:[3-9]\d|\d{3})",
    r"gradients?\b.{0,30}\b(?:are|is|was|became|becomes?|all|contain\w*|norm\W{1,4})\W*(?:nan|inf)\b",
)

COLLECTIVE = [
    *rules(EndClass.COLLECTIVE_TIMEOUT, Rank.WAIT, Proof.ENDED)(
        r"watchdog got stuck|HeartbeatMonitor|heartbeat monitor.*timed out|"
        r"Termination timeout .*exceeded\. Exiting",
    ),
    *rules(EndClass.COLLECTIVE_TIMEOUT, Rank.WAIT, Proof.WAITS)(
        r"collective (?:operation )?time(?:d )?-?out|(?:ran|running) for \d+ milliseconds before timing out|"
        r"Timeout at NCCL work|Watchdog caught collective|NCCL operations have failed or timed out|"
        r"got error: (?:Socket Timeout|wait timeout)|wait timeout after \d+ ?ms|Socket Timeout\b|"
        r"Timed out (?:after \d+ seconds )?waiting (?:for clients|\d+ms for (?:recv|send))|"
        r"Timed out initializing process group|failed to pass monitoredBarrier|monitoredBarrier.*tim|"
        r"Barrier timed out|barrier.{0,40}(?:timed out|DEADLINE_EXCEEDED)|"
        r"DEADLINE_EXCEEDED.{0,60}(?:barrier|coordination)|RendezvousTimeoutError|NCCL timeout|"
        r"(?:allreduce|all_reduce|allgather|all_gather|broadcast|reduce_scatter|barrier)\b.{0,60}\btimed? ?out|"
        r"notify wait timeout|(?:HCCL|RCCL|Gloo|NCCL).{0,40}\btimed? ?out",
    ),
]

NETWORK = [
    *rules(EndClass.NETWORK, Rank.CAUSE, Proof.NOTHING)(
        r"NET/IB ?: ?Got async event ?: ?(?:port|GID|SM|LID|device fatal|client)|"
        r"\bmlx5_\d.{0,60}(?:port|link).{0,20}\b(?:down|error)|link is down|Link Down\b",
        cause=said("a port of the network reported an error"),
    ),
    *rules(EndClass.NETWORK, Rank.CAUSE, Proof.ENDED)(
        r"Temporary failure in name resolution|Name or service not known|NameResolutionError|gaierror|"
        r"Could not resolve host|getaddrinfo.{0,20}failed",
        cause=said("the name of a host could not be resolved"),
    ),
    *rules(EndClass.NETWORK, Rank.CAUSE, Proof.ENDED)(
        r"No route to host|Network is unreachable|EHOSTUNREACH|ENETUNREACH",
        cause=said("a host cannot be reached over the network"),
    ),
    *rules(EndClass.NETWORK, Rank.CAUSE, Proof.ENDED)(
        r"NCCL WARN .*(?:NET/IB|ibv_|Got completion|with error \d+, opcode|timed out|Connection (?:refused|"
        r"timed))|retry counter exceeded|ibv_\w+ failed|failed with error Connection timed out|"
        r"client socket has (?:failed|timed out)|connect\(\) timed out|errno: ?11[013]\b|Errno 11[013]\b|"
        r"Connection timed out|Connection refused|\bMax retries exceeded|TLS handshake timeout|"
        r"ReadTimeout(?:Error)?\b|ConnectTimeout(?:Error)?\b|Read timed out|"
        r"SSLError|SSLEOFError|couldn't connect to ['\"]?https?:|Couldn't reach|"
        r"(?:HTTP|Server|Client) ?Error\W{1,3}5\d\d|Rendezvous connection error|"
        r"50[234] (?:Server Error|Bad Gateway|Service Unavailable|Gateway)|"
        r"connectFullMesh failed|Network error|Remote end closed connection|IncompleteRead",
    ),
    *rules(EndClass.NETWORK, Rank.PEER, Proof.ENDED)(
        r"Connection closed by (?:remote )?peer|closed by remote peer|Connection reset by peer|ECONNRESET|"
        r"Errno 104\b|Broken pipe|EPIPE\b|Connection aborted|ConnectionResetError|BrokenPipeError|"
        r"ConnectionError\b|ncclRemoteError|recvValue failed|sendBytes failed|Socket (?:recv|send) failed|"
        r"socketProgress|SocketClosed|failed to recv, got 0 bytes|ncclSystemError|unhandled system error|"
        r"heartbeat timeout|stopped sending heartbeats|missed heartbeat|DistBackendError|DistNetworkError|"
        r"DistStoreError|NCCL error in|ncclInternalError|UNAVAILABLE: |failed to connect to all addresses|"
        r"Socket closed|remote process exit",
    ),
]
