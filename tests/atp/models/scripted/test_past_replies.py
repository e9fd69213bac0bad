"""Which of its earlier replies a request carries back, by the endpoint's account."""

from __future__ import annotations

from atp.models.scripted.past_replies import CarriedBack, PastReplies
from atp.models.scripted.steps import Message, Step, StepCall


def call(call_id: str) -> StepCall:
    return StepCall(call_id, "pay", "{}")


def asked(*calls: str) -> Step:
    return Step(tool_calls=tuple(map(call, calls)))


def replies(*steps: Step) -> PastReplies:
    past = PastReplies()
    for number, step in enumerate(steps, 1):
        past.add(f"request-{number}", f"resp-{number}", step)
    return past


def test_a_reply_with_calls_is_held_by_their_ids() -> None:
    message = Message("assistant", tool_calls=(call("a"), call("b")))
    assert replies(asked("a", "b")).within([message]) == CarriedBack(("resp-1",), ())


def test_a_reply_is_held_by_its_text_whatever_became_of_the_white_space_at_its_ends() -> None:
    assert replies(Step(text=" Yes.\n")).within([Message("assistant", "Yes.")]).held == ("resp-1",)


def test_a_reply_of_which_a_call_is_gone_is_not_held() -> None:
    message = Message("assistant", tool_calls=(call("a"),))
    assert replies(asked("a", "b")).within([message]) == CarriedBack((), ())


def test_equal_replies_are_held_as_often_as_they_stand_there() -> None:
    past = replies(Step(text="Yes."), Step(text="Yes."))
    assert past.within([Message("assistant", "Yes.")]).held == ("resp-1",)
    assert past.within([Message("assistant", "Yes."), Message("assistant", "Yes.")]).held == (
        "resp-1",
        "resp-2",
    )


def test_a_reply_told_by_the_user_is_pasted() -> None:
    past = replies(asked("call_7"), Step(text="It is paid."))
    told = past.within([Message("user", "assistant called call_7\nassistant: It is paid.")])
    assert told == CarriedBack((), ("resp-1", "resp-2"))


def test_a_reply_that_is_held_may_be_told_of_as_well() -> None:
    past = replies(Step(text="Yes."))
    assert past.within([Message("assistant", "Yes."), Message("user", "You said: Yes.")]) == CarriedBack(
        ("resp-1",), ()
    )


def test_an_empty_reply_is_always_held() -> None:
    assert replies(Step(text="")).within([Message("user", "Go on.")]).held == ("resp-1",)


def test_a_request_that_was_sent_again_has_one_reply_under_two_ids() -> None:
    past = PastReplies()
    past.add("request-1", "resp-1", Step(text="Yes."))
    past.add("request-1", "resp-2", Step(text="Yes."))
    assert past.within([Message("assistant", "Yes.")]).held == ("resp-1", "resp-2")
