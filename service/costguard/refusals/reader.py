"""Explains an error of Google's or Slack's: `explain(answer)`, pure, never raising.

`answer` is the body of an answer (bytes, text, or the object in it), the text of an exception, of gcloud, of Terraform
or of a log, or an entry of the audit log. What the caller knows and the answer may not say is given by name:

    explain(response.content, status=response.status_code, service="compute.googleapis.com", project="p", account=email)

The result's `sentence` and `mend` are for people (a mend holds one exact command between backticks where there is one);
`kind` and `missing` are for decisions. No credential in the answer is in the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from costguard.refusals import access_words, request_words, room_words, sign_in_words, slack_codes
from costguard.refusals.case import Case, Words
from costguard.refusals.explanation import Explanation, Lacks, RefusalKind
from costguard.refusals.facts import missing_in
from costguard.refusals.kinds import kind_in
from costguard.refusals.normal_form import Answer, unwrap
from costguard.refusals.services import service_in

SLACK = "slack"

_WORDS: Mapping[RefusalKind, Callable[[Case], Words]] = {
    RefusalKind.API_DISABLED: access_words.api_disabled,
    RefusalKind.PERMISSION: access_words.permission,
    RefusalKind.SCOPE: access_words.scope,
    RefusalKind.BILLING: access_words.billing,
    RefusalKind.ORG_POLICY: access_words.org_policy,
    RefusalKind.VPC_SERVICE_CONTROLS: access_words.perimeter,
    RefusalKind.CREDENTIALS: sign_in_words.credentials,
    RefusalKind.QUOTA: room_words.quota,
    RefusalKind.STOCKOUT: room_words.stockout,
    RefusalKind.RESERVATION: room_words.reservation,
    RefusalKind.RATE_LIMITED: room_words.rate_limited,
    RefusalKind.REQUEST: request_words.request,
    RefusalKind.NOT_FOUND: request_words.not_found,
    RefusalKind.UNKNOWN: request_words.unknown,
}


def explain(
    answer: bytes | str | Mapping[str, Any], *, status: int = 0, service: str = "", project: str = "", account: str = ""
) -> Explanation:
    """Reads any answer. `service` is who answered; `project` and `account` count where the answer names none."""
    read = unwrap(answer, status)
    is_other = read.is_page or service not in ("", SLACK)
    code = "" if is_other else slack_codes.code_in(read.text)
    if code:
        return _of_slack(code, read)
    kind = kind_in(read)
    missing = missing_in(read, kind)
    if not missing.project and project:
        missing = replace(missing, project=project)
    given = "" if missing.api else service.removesuffix(".googleapis.com")
    who = given or service_in(read.text, missing.permissions, missing.api)
    sentence, mend = _WORDS[kind](Case(who, missing, read.text, read.said, account))
    return Explanation(kind, who, sentence, mend, missing, read.status, read.said)


def _of_slack(code: str, read: Answer) -> Explanation:
    kind = slack_codes.kind_of_code(code)
    sentence, mend, missing = f"Slack refused the call: {code}.", "", Lacks()
    if kind is RefusalKind.SLACK_SCOPE:
        needed, provided = read.value("needed"), read.value("provided")
        missing = Lacks(scopes=tuple(scope.strip() for scope in needed.split(",") if scope.strip()))
        sentence, mend = slack_codes.of_scope(needed, provided)
    elif kind is RefusalKind.SLACK_TOKEN:
        mend = slack_codes.TOKEN[code]
    elif kind is RefusalKind.SLACK_CHANNEL:
        mend = slack_codes.CHANNEL[code]
    elif kind is RefusalKind.RATE_LIMITED:
        sentence, mend = (
            f"Slack limits how often it is called: {code}.",
            "Wait as many seconds as its header Retry-After says.",
        )
    elif kind is RefusalKind.NOT_FOUND:
        mend = "Check the id that was sent: Slack has nothing of this name, or the app may not see it."
    elif kind is RefusalKind.REQUEST:
        mend = "The call itself is wrong: change what is sent; to try again does not help."
    return Explanation(kind, SLACK, sentence, mend, missing, read.status, code)


def is_about_notice(said: str) -> bool:
    """Says whether a refusal is about the notice of a preemption.

    An API that does not know the field names it: `Unknown name "preemptionNoticeDuration" at 'resource.scheduling'`.
    """
    return _NOTICE.search(said) is not None


_NOTICE = re.compile(r"preemption[ _]?notice", re.IGNORECASE)
