"""Instructions and answers in the form of the vocabulary."""

from __future__ import annotations

from atp.protocol.task import FilePart, ImagePart, TextPart
from monitor.task_messages import answered, asked

SHA = "0" * 64


def test_an_instruction_is_one_user_message_with_its_parts_in_order() -> None:
    parts = (
        TextPart(text="What is this?"),
        ImagePart(sha256=SHA, media_type="image/png"),
        FilePart(sha256=SHA, name="a.wav", media_type="audio/wav"),
    )
    assert asked(parts) == [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "What is this?"},
                {"type": "file", "modality": "image", "mime_type": "image/png", "file_id": SHA},
                {
                    "type": "file",
                    "modality": "audio",
                    "mime_type": "audio/wav",
                    "file_id": SHA,
                    "name": "a.wav",
                },
            ],
        }
    ]


def test_where_the_user_speaks_first_nothing_was_asked() -> None:
    assert asked(()) == []


def test_an_answer_is_a_message_of_the_assistant() -> None:
    assert answered("42") == [{"role": "assistant", "parts": [{"type": "text", "content": "42"}]}]


def test_an_empty_answer_is_a_message_without_parts() -> None:
    assert answered("") == [{"role": "assistant", "parts": []}]
