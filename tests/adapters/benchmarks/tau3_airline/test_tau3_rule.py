"""The official rule in its details, as `tau2/evaluator` and the official tools of v1.0.1 apply it."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.benchmarks.tau3_airline import Tau3Airline
from atp.protocol.errors import BenchmarkError, InvalidInput, NotReady
from atp.protocol.status import Status, StopReason
from atp.protocol.task import Expected
from atp.protocol.trace import TaskTrace
from tests.adapters.benchmarks.tau3_airline.trajectories import Call, Customers, call

BOOKING, BAGS, CANCELLING, PASSENGERS, SPOKEN = "8", "12", "19", "40", "7"
"""Tasks whose only gold write is a booking, bags, a cancellation, passengers; one that wants words too."""
WRITES = ("book_", "cancel_", "update_")


def changed(gold: Call, **arguments: Any) -> Call:
    return gold[0], {**gold[1], **arguments}


def write(customers: Customers, task_id: str) -> Call:
    [only] = [item for item in customers.gold(task_id) if item[0].startswith(WRITES)]
    return only


async def score(customers: Customers, task_id: str, *calls: Call) -> float | None:
    return (await customers.played(task_id, calls, "Done.")).score


@pytest.mark.parametrize("number", [2.0, "2"])
async def test_bags_are_stored_as_they_come_so_another_type_is_another_database(
    customers: Customers, number: Any
) -> None:
    gold = write(customers, BAGS)
    assert gold[1]["total_baggages"] == 2
    assert await score(customers, BAGS, gold) == 1.0
    assert await score(customers, BAGS, changed(gold, total_baggages=number)) == 0.0


@pytest.mark.parametrize(("amount", "reward"), [(348, 1.0), (348.0, 1.0), ("348", 1.0), (348.5, 0.0)])
async def test_a_booking_takes_what_comes_to_whole_dollars(
    customers: Customers, amount: Any, reward: float
) -> None:
    gold = write(customers, BOOKING)
    [payment] = gold[1]["payment_methods"]
    assert payment["amount"] == 348
    booked = changed(gold, payment_methods=[{**payment, "amount": amount}])
    assert await score(customers, BOOKING, booked) == reward


async def test_a_failed_write_changes_nothing(customers: Customers) -> None:
    gold = write(customers, BAGS)
    assert await score(customers, BAGS, changed(gold, reservation_id="NOSUCH"), gold) == 1.0


async def test_an_update_may_be_repeated_or_corrected(customers: Customers) -> None:
    gold = write(customers, BAGS)
    assert await score(customers, BAGS, gold, gold) == 1.0
    assert await score(customers, BAGS, changed(gold, total_baggages=3), gold) == 1.0


async def test_a_second_cancellation_appends_the_refund_again(customers: Customers) -> None:
    gold = write(customers, CANCELLING)
    assert await score(customers, CANCELLING, gold) == 1.0
    assert await score(customers, CANCELLING, gold, gold) == 0.0


async def test_two_bookings_in_another_order_are_another_database(customers: Customers) -> None:
    """Ids go by the order of booking; the cancellation before them may as well come after."""
    cancelling, *bookings = [item for item in customers.gold("23") if item[0].startswith(WRITES)]
    assert [name for name, _ in bookings] == ["book_reservation"] * 3
    said = customers.expected("23").outputs
    assert (await customers.played("23", [*bookings, cancelling], *said)).score == 1.0
    assert (await customers.played("23", [cancelling, *reversed(bookings)], *said)).score == 0.0


async def test_the_order_of_keys_does_not_matter_that_of_passengers_does(customers: Customers) -> None:
    name, arguments = write(customers, PASSENGERS)
    backwards = dict(reversed(arguments.items()))
    assert list(backwards) != list(arguments)
    assert await score(customers, PASSENGERS, (name, backwards)) == 1.0
    people = arguments["passengers"]
    assert await score(customers, PASSENGERS, (name, {**arguments, "passengers": people[::-1]})) == 0.0


async def test_what_else_a_passenger_has_is_dropped(customers: Customers) -> None:
    gold = write(customers, PASSENGERS)
    people = [{**passenger, "seat": "4A"} for passenger in gold[1]["passengers"]]
    assert await score(customers, PASSENGERS, changed(gold, passengers=people)) == 1.0


@pytest.mark.parametrize(
    "arguments",
    [{"note": "please"}, {"cabin": "Economy"}, {"flights": '[{"flight_number": "HAT271"}]'}],
    ids=["an unknown argument", "a cabin in capitals", "a list as JSON text"],
)
async def test_a_call_that_the_tool_cannot_take_is_an_error_and_changes_nothing(
    customers: Customers, arguments: dict[str, Any]
) -> None:
    gold = write(customers, BOOKING)
    [recorded] = await customers.called(BOOKING, [changed(gold, **arguments)])
    assert recorded.error is not None and recorded.error.startswith("Error: ")
    assert await score(customers, BOOKING, changed(gold, **arguments), gold) == 1.0


async def test_reads_and_calls_that_reached_no_tool_do_not_matter(customers: Customers) -> None:
    gold = await customers.called(BAGS, [write(customers, BAGS)])
    others = [
        call("get_user_details", {"user_id": "nobody"}, error="Error: User nobody not found", at=1),
        call("get_flight_status", {"flight_number": "HAT001", "date": "2024-05-16"}, "made up", at=2),
        call("refund_everything", {}, error="there is no tool named 'refund_everything'", at=3),
        call("cancel_reservation", ["YAX4DR"], error="invalid arguments: not a JSON object", at=4),
    ]
    assert (await customers.graded(BAGS, [*gold, *others], "Done.")).score == 1.0


async def test_a_replayed_write_that_gives_another_output_is_an_error_of_grading(
    customers: Customers,
) -> None:
    name, arguments = write(customers, BAGS)
    with pytest.raises(BenchmarkError, match="update_reservation_baggages .* another output"):
        await customers.graded(BAGS, [call(name, arguments, '{"reservation_id": "YAX4DR"}')], "Done.")


@pytest.mark.parametrize(
    ("said", "communicate"),
    [
        (("It comes to 1628.",), 1.0),
        (("It comes to 1,628 dollars.",), 1.0),
        (("It comes to $1,628.00.",), 1.0),
        (("Ticket 9162845.",), 1.0),
        (("1,628", "Bye."), 1.0),
        (("16", "28"), 0.0),
        (("It comes to 1 628.",), 0.0),
        (("It comes to 1.628.",), 0.0),
        ((), 0.0),
    ],
)
async def test_a_required_string_stands_in_one_message_without_regard_to_commas(
    customers: Customers, said: tuple[str, ...], communicate: float
) -> None:
    assert customers.expected(SPOKEN).outputs == ("1628",)
    grade = await customers.played(SPOKEN, customers.gold(SPOKEN), *said)
    components = grade.details["components"]
    assert isinstance(components, dict)
    assert components["communicate"] == grade.score == communicate
    assert components["db"] == 1.0


async def test_several_strings_may_stand_in_several_messages(customers: Customers) -> None:
    assert customers.expected("14").outputs == ("327", "1000", "1786")
    gold = customers.gold("14")
    assert (await customers.played("14", gold, "327 and 1,000", "so 1,786")).score == 1.0
    grade = await customers.played("14", gold, "327 and 1,000")
    assert (grade.score, grade.reason) == (0.0, "not said: 1786")


async def test_four_is_found_in_gate_14(customers: Customers) -> None:
    assert customers.expected("3").outputs == ("4",)
    assert (await customers.played("3", [], "Four.", "Gate 14")).score == 1.0
    assert (await customers.played("3", [], "Four.")).score == 0.0


@pytest.mark.parametrize("stop_reason", [StopReason.USER_STOP, StopReason.TRANSFER, StopReason.ANSWERED])
async def test_an_end_by_user_or_agent_is_graded(customers: Customers, stop_reason: StopReason) -> None:
    assert (await customers.played("0", [], "No.", stop_reason=stop_reason)).score == 1.0


@pytest.mark.parametrize(
    ("status", "stop_reason"),
    [
        (Status.LIMIT, StopReason.MAX_TURNS),
        (Status.LIMIT, StopReason.DEADLINE),
        (Status.COMPLETED, StopReason.MAX_TURNS),
        (Status.AGENT_ERROR, StopReason.HARNESS_ERROR),
        (Status.AGENT_ERROR, StopReason.USER_STOP),
    ],
)
async def test_any_other_end_gives_0_and_no_components(
    customers: Customers, status: Status, stop_reason: StopReason
) -> None:
    grade = await customers.played("0", [], "No.", status=status, stop_reason=stop_reason)
    assert (grade.score, grade.passed) == (0.0, False)
    assert grade.details["components"] == {"db": None, "communicate": None, "action": None}


async def test_an_answer_without_a_run_is_graded_by_its_words(customers: Customers) -> None:
    assert (await customers.played("3", [], "You may bring 4.", stop_reason=None)).score == 1.0


async def test_the_action_component_tells_of_missing_gold_calls_and_is_no_part_of_the_reward(
    customers: Customers,
) -> None:
    assert customers.gold("5") == [("get_user_details", {"user_id": "mei_brown_7075"})]
    silent = await customers.played("5", [], "No.")
    assert silent.score == 1.0
    assert silent.details["components"] == {"db": 1.0, "communicate": 1.0, "action": 0.0}


@pytest.mark.parametrize("arguments", [{"summary": "any"}, {}])
async def test_an_action_is_compared_by_the_arguments_that_its_task_names(
    customers: Customers, arguments: dict[str, Any]
) -> None:
    """Task 13 names none for its transfer."""
    calls = [item for item in customers.gold("13") if item[0] != "transfer_to_human_agents"]
    grade = await customers.played("13", [*calls, ("transfer_to_human_agents", arguments)], "Done.")
    components = grade.details["components"]
    assert isinstance(components, dict)
    assert components["action"] == 1.0


async def test_a_task_with_another_basis_of_its_reward_is_not_graded(customers: Customers) -> None:
    gold = Expected(verifier={"reward_basis": ["DB", "NL_ASSERTION"], "compare_args": []})
    task = customers.tasks["0"].model_copy(update={"expected": gold})
    with pytest.raises(BenchmarkError, match="0 is graded by .*NL_ASSERTION"):
        await customers.benchmark.grade(task, TaskTrace(final_answer="No."))


def test_without_its_files_the_benchmark_says_what_to_type() -> None:
    with pytest.raises(NotReady, match="atp data get tau3-airline"):
        Tau3Airline().load(None)


def test_an_option_it_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no option 'seed'"):
        Tau3Airline({"seed": "1"})
