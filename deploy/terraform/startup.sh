#!/bin/bash
# Runs as root at every boot of the VM that vm.tf makes: mounts the disk, installs Costguard, fetches its secrets, starts it.
# Everything may run again. After a new secret: sudo google_metadata_script_runner startup
set -euo pipefail

METADATA=${METADATA:-http://metadata.google.internal/computeMetadata/v1}
SECRETS=${SECRETS:-https://secretmanager.googleapis.com/v1}
ROOT=${ROOT:-}
DISK=${DISK:-/dev/disk/by-id/google-costguard-data}
STATE=$ROOT/var/lib/private/costguard # systemd shows it to the service as /var/lib/costguard
INSTALLED=$ROOT/opt/costguard

metadata() {
  curl --silent --show-error --fail --retry 5 --retry-connrefused --header 'Metadata-Flavor: Google' "$METADATA/instance/$1"
}

mount_disk() {
  if ! blkid "$DISK" > /dev/null; then
    mkfs.ext4 -q -m 0 -L costguard "$DISK"
  fi
  install -d -m 0700 "$ROOT/var/lib/private" "$STATE"
  mountpoint --quiet "$STATE" || mount -o nosuid,nodev,noexec "$DISK" "$STATE"
}

install_package() {
  local package folder
  package=$(metadata attributes/costguard-package)
  # A folder for each package, so that a failed installation leaves the running one as it is.
  folder=$INSTALLED-$(sha256sum <<< "$package" | cut -c1-12)
  if [ ! -e "$folder/complete" ]; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv git unattended-upgrades
    rm -rf "$folder"
    python3 -m venv "$folder"
    metadata attributes/costguard-requirements > "$folder/requirements.txt"
    # As in the container image: what the lock names by its hash, and Costguard itself.
    "$folder/bin/pip" install -q --disable-pip-version-check --require-hashes -r "$folder/requirements.txt"
    "$folder/bin/pip" install -q --disable-pip-version-check --no-deps "$package"
    touch "$folder/complete"
  fi
  ln -sfn "$folder" "$INSTALLED"
}

fetch_secrets() {
  local token variable secret
  token=$(metadata service-accounts/default/token | python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
  install -d -m 0700 "$ROOT/etc/credstore"
  metadata attributes/costguard-secrets | while read -r variable secret || [ -n "$variable" ]; do
    fetch_secret "$token" "$secret" "$ROOT/etc/credstore/$variable"
  done
}

# One secret, to a file that root alone reads. A secret without a version has no file: the unit leaves it out.
fetch_secret() {
  local answer status
  answer=$(mktemp)
  # The token is given on standard input, so that it is in no list of processes.
  status=$(curl --silent --show-error --retry 5 --retry-connrefused --output "$answer" --write-out '%{http_code}' \
    --config - "$SECRETS/$2/versions/latest:access" <<< "header = \"Authorization: Bearer $1\"")
  case $status in
    200)
      (umask 0077 && python3 -c 'import base64, json, sys
sys.stdout.buffer.write(base64.b64decode(json.load(sys.stdin)["payload"]["data"]))' < "$answer" > "$3.new")
      mv "$3.new" "$3"
      ;;
    404) rm -f "$3" ;;
    *)
      echo "Secret $2 cannot be read: HTTP $status" >&2
      rm -f "$answer"
      return 1
      ;;
  esac
  rm -f "$answer"
}

write_files() {
  install -d -m 0755 "$ROOT/etc/costguard" "$ROOT/etc/systemd/system/costguard.service.d"
  metadata attributes/costguard-settings > "$ROOT/etc/costguard/costguard.toml"
  metadata attributes/costguard-unit > "$ROOT/etc/systemd/system/costguard.service"
  # Without its disk the ledger would begin again on the boot disk.
  printf '[Unit]\nAssertPathIsMountPoint=%s\n' /var/lib/private/costguard > "$ROOT/etc/systemd/system/costguard.service.d/disk.conf"
}

main() {
  mount_disk
  install_package
  fetch_secrets
  write_files
  systemctl daemon-reload
  systemctl enable costguard
  systemctl restart costguard
}

# Without an argument all of it; a test names one step.
"${1:-main}"
