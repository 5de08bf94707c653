#!/bin/sh
# Runs at every boot as root: puts the guard's agent on the VM and starts it. The agent knows what is left to do.
set -eu
umask 077

metadata=${COSTGUARD_METADATA:-http://metadata.google.internal/computeMetadata/v1}
home=${COSTGUARD_HOME:-/var/lib/costguard}
logs=${COSTGUARD_LOGS:-/var/log/costguard}
volatile=${COSTGUARD_VOLATILE:-/run/costguard}
agent=$home/agent.pyz
words=$logs/agent.log
export COSTGUARD_METADATA="$metadata" COSTGUARD_HOME="$home" COSTGUARD_LOGS="$logs" COSTGUARD_VOLATILE="$volatile"

python=$(command -v python3) || {
  echo "costguard: this image has no python3, so nothing is started; take a Deep Learning VM or Debian image" >&2
  exit 1
}

# Not curl: slim images have none. No proxy stands between a VM and its metadata.
attribute() {
  "$python" -I -c '
import sys, time, urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
request = urllib.request.Request(sys.argv[1], headers={"Metadata-Flavor": "Google"})
for attempt in range(10):
    try:
        sys.stdout.buffer.write(opener.open(request, timeout=10).read())
        sys.exit(0)
    except OSError as error:
        problem = error
        if getattr(error, "code", 0) == 404:
            break
    time.sleep(min(10, 0.5 * 2**attempt))
sys.exit("costguard: %s: %s" % (sys.argv[1], problem))
' "$metadata/instance/attributes/$1"
}

# A VM that is started again may have been left with a full disk: its agent then runs from memory, and says so.
if ! { mkdir -p "$home" "$logs" && head -c 262144 /dev/zero >"$home/room"; } 2>/dev/null; then
  echo "costguard: the disk is full, so the agent is put into memory, at $volatile" >&2
  mkdir -p "$volatile"
  agent=$volatile/agent.pyz
  words=$volatile/agent.log
fi
rm -f "$home/room"
attribute costguard-agent >"$agent.base64"
base64 -d "$agent.base64" >"$agent.new"
rm "$agent.base64"
wanted=$(attribute costguard-agent-sha256)
found=$(sha256sum "$agent.new" | cut -d ' ' -f 1)
if [ "$found" != "$wanted" ]; then
  echo "costguard: the agent arrived damaged (sha256 $found, not $wanted); nothing is started" >&2
  exit 1
fi
mv "$agent.new" "$agent"

restart() {
  if ! { command -v systemctl >/dev/null && systemctl restart "$1"; }; then
    echo "costguard: $1 was not restarted, so the output stays on this VM" >&2
  fi
}

# To Cloud Logging, where the image has an agent for it. What someone configured there is theirs, and is left alone.
etc=${COSTGUARD_ETC:-}
if [ -z "$etc" ] && [ -d /run/systemd/system ] && [ -z "${COSTGUARD_WITHOUT_SYSTEMD:-}" ]; then
  etc=/etc
fi
if [ -n "$etc" ] && [ -d "$etc/google-cloud-ops-agent" ]; then
  if ! grep -qs '^ *[^# ]' "$etc/google-cloud-ops-agent/config.yaml"; then
    cat >"$etc/google-cloud-ops-agent/config.yaml" <<EOF
logging:
  receivers:
    costguard: {type: files, include_paths: [$logs/*.log]}
  service:
    pipelines:
      costguard: {receivers: [costguard]}
EOF
    restart google-cloud-ops-agent
  fi
elif [ -n "$etc" ] && [ -d "$etc/google-fluentd/config.d" ] && [ ! -e "$etc/google-fluentd/config.d/costguard.conf" ]; then
  cat >"$etc/google-fluentd/config.d/costguard.conf" <<EOF
<source>
  @type tail
  format none
  path $logs/*.log
  pos_file /var/lib/google-fluentd/pos/costguard.pos
  read_from_head true
  tag costguard
</source>
EOF
  restart google-fluentd
fi

if [ -d /run/systemd/system ] && [ -z "${COSTGUARD_WITHOUT_SYSTEMD:-}" ] && command -v systemd-run >/dev/null; then
  if systemctl is-active --quiet costguard-agent; then
    exit 0
  fi
  systemctl reset-failed costguard-agent 2>/dev/null || true
  # KillMode=process: an agent that died finds its command again. After=: at shutdown the agent is stopped before
  # Docker and the network are, so that the command can save and the guard hear of it.
  exec systemd-run --unit=costguard-agent --description="Costguard agent" \
    --property=Restart=on-failure --property=RestartSec=2 --property=StartLimitIntervalSec=0 \
    --property=KillMode=process --property=TimeoutStopSec=90 \
    --property=After=network-online.target --property=After=docker.service \
    --setenv=COSTGUARD_METADATA="$metadata" --setenv=COSTGUARD_HOME="$home" --setenv=COSTGUARD_LOGS="$logs" \
    --setenv=COSTGUARD_VOLATILE="$volatile" \
    "$python" -I "$agent"
fi

# shellcheck disable=SC2016  # the inner shell is to expand them
nohup setsid sh -c 'until "$0" -I "$1"; do sleep 2; done' "$python" "$agent" >>"$words" 2>&1 </dev/null &
