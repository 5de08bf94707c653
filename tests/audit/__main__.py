"""Audits what Costguard installs: licences, and listed vulnerabilities where their database can be reached."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from tests.audit.licences import policy, refused
from tests.audit.locked import REQUIREMENTS, locked
from tests.audit.vulnerabilities import OSV, NotReached, accepted_here, unaccepted, vulnerabilities


def main(address: str = OSV) -> int:
    """0: nothing is wrong, as far as could be seen. A second address in place of OSV's is for a mirror."""
    packages = locked(REQUIREMENTS.read_text(encoding="utf-8"))
    wrong = list(refused(packages, policy()))
    print(f"Licences: {len(packages)} packages, {len(wrong)} refused.")
    try:
        listed = vulnerabilities(packages, address)
    except NotReached as error:
        print(f"Vulnerabilities: SKIPPED, nothing was checked. {error}.")
    else:
        today = datetime.now(UTC).date()  # noqa: TID251 - how long an exception holds is a matter of real days
        open_ones = unaccepted(listed, accepted_here(), today)
        print(f"Vulnerabilities: {len(listed)} listed in {len(packages)} packages, {len(open_ones)} not accepted.")
        wrong += [str(one) for one in open_ones]
    for line in wrong:
        print(f"  {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
