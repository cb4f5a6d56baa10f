"""The engine's side of the connections to its subtasks."""

from __future__ import annotations

import json
import logging
import queue
import secrets
import socket
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from typing import Any

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.model.encoding.json_parts import decode_part
from sparkapp.spark.engine.continuous.adoptions import Adoptions, SubtaskLosses
from sparkapp.spark.engine.continuous.answers import Silent, send
from sparkapp.spark.tasks.control_channel import (
    BEAT_SECONDS,
    MAX_FRAME,
    SUBTASK_SILENCE_SECONDS,
    Address,
    connection_of,
    hang_up,
    receive_ready,
)
from sparkapp.spark.tasks.control_frames import (
    Answer,
    InstanceOrder,
    Ready,
    Work,
    encode_barrier,
    encode_beat,
    encode_instance_order,
    encode_stop,
    encode_work,
    is_beat,
)

LOG = logging.getLogger(__name__)


class ControlServer:
    """Gives work to the subtasks and collects their answers. Thread-safe.

    A subtask has one connection: its newest. A task that Spark starts again connects again and is given the work that
    its predecessor did not answer. What an older connection says is ignored: the new task's producer fences the old.
    After a stop request only the final answer of the task counts, because nobody else confirms its end.

    :param host: address that executors connect to; any free port.
    :param silence: seconds after which the connection of a subtask that says nothing is closed.
    :ivar losses: of subtasks that nobody has asked to end.
    """

    def __init__(self, host: str, *, silence: float = SUBTASK_SILENCE_SECONDS) -> None:
        self._key = secrets.token_bytes(32)
        self._listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._lock = threading.Lock()
        self._open: set[Connection[Any, Any]] = set()
        self._connections: dict[int, Connection[Any, Any]] = {}
        self._ending: dict[Connection[Any, Any], int] = {}
        self._unconfirmed: dict[Connection[Any, Any], int] = {}
        self._unanswered: dict[int, Work] = {}
        # No SimpleQueue: its `get` waits for ever where a signal's handler outlasts the wait (Python 3.11).
        self._answers: queue.Queue[Answer | None] = queue.Queue()
        self._silent: queue.SimpleQueue[Silent] = queue.SimpleQueue()
        self._silence = silence
        self._executors: dict[int, str] = {}
        self._adoptions = Adoptions()
        self.losses = SubtaskLosses()
        self._first_wave: dict[int, int] = {}
        self._is_stopping = self._is_closed = False
        self.address = Address(host, self._listener.getsockname()[1], self._key)
        self._acceptor = threading.Thread(target=self._accept, name="subtasks", daemon=True)
        self._acceptor.start()
        self._beats = PeriodicThread(self._beat, name="beats", interval=BEAT_SECONDS)
        self._beats.start()

    def give(self, work: Mapping[int, Work]) -> None:
        """Gives each subtask its work, now or as soon as it connects; called once a checkpoint."""
        with self._lock:
            self._unanswered.update(work)
            for subtask, part in work.items():
                send(self._connections.get(subtask), encode_work(part))

    def withdraw(self) -> bool:
        """Takes the work back if no subtask has ever been connected, so that nobody has it; returns whether it did."""
        with self._lock:
            if self._executors:
                return False
            self._unanswered.clear()
            return True

    def barrier(self, checkpoint_id: int, work: Mapping[int, Work]) -> None:
        """Ends an open checkpoint; a task that connects later gets this work. Called once."""
        with self._lock:
            for subtask in work.keys() & self._unanswered.keys():
                self._unanswered[subtask] = work[subtask]
                send(self._connections.get(self._adoptions.writer_of(subtask)), encode_barrier(checkpoint_id))

    def tell(self, subtask: int, order: InstanceOrder) -> None:
        """Sends an order of the local pace, if the subtask is connected: a new task begins by a report."""
        with self._lock:
            send(self._connections.get(subtask), encode_instance_order(order))

    def stop(self) -> set[int]:
        """Asks every subtask to end, now or as soon as it connects; returns those that are connected, which answer."""
        with self._lock:
            self._is_stopping = True
            for subtask, connection in self._connections.items():
                self._unconfirmed[connection] = subtask
                send(connection, encode_stop())
            return set(self._connections)

    def adopt(self) -> None:
        """Gives the work of subtasks that are lost to others that have none; called often while one is missing."""
        with self._lock:
            for subtask, adopter in self._adoptions.choose(self._unanswered, self._connections).items():
                LOG.info("subtask %d does the work of subtask %d", adopter, subtask)
                send(self._connections.get(adopter), encode_work(self._unanswered[subtask].again()))

    def end(self, subtasks: Collection[int], *, wave: int) -> bool:
        """Asks the tasks of these subtasks to end, also those that connect later; called when the job is rescaled.

        :param subtasks: that have no work of their own.
        :param wave: the first wave whose tasks are not to end. A task of an earlier wave that Spark starts again ends.
        :returns: False while one of them does the work of another; then none is asked.
        """
        with self._lock:
            if not self._adoptions.adopters.isdisjoint(subtasks):
                return False
            for subtask in subtasks:
                self._first_wave[subtask] = wave
                if (connection := self._connections.get(subtask)) is not None:
                    self._lose(subtask, asked=True)
                    self._ending[connection] = self._unconfirmed[connection] = subtask
                    send(connection, encode_stop())
            return True

    @property
    def connected(self) -> set[int]:
        """The subtasks whose connections stand. All that another subtask has sent can be had by :meth:`answer`."""
        with self._lock:
            return {*self._connections, *self._ending.values()}

    @property
    def ready(self) -> set[int]:
        """The connected subtasks without those that were asked to end."""
        with self._lock:
            return set(self._connections)

    @property
    def ending(self) -> set[int]:
        """The subtasks with a connected task that was asked to end; their next tasks may be ready."""
        with self._lock:
            return set(self._ending.values())

    @property
    def unconfirmed(self) -> set[int]:
        """The subtasks with a task that was asked to end and has not answered; without those lost before the stop."""
        with self._lock:
            return set(self._unconfirmed.values())

    @property
    def awaits_end(self) -> bool:
        """Whether one of their connections stands, so that the answer may still come, or an answer waits here."""
        with self._lock:
            return any(not connection.closed for connection in self._unconfirmed) or not self._answers.empty()

    @property
    def writers(self) -> set[int]:
        """The subtasks that write, or whose work another writes."""
        with self._lock:
            return self._connections.keys() | self._adoptions.adopted

    def lost(self, seconds: float) -> set[int]:
        """The subtasks that have had no connection for so long, and whose work no other does."""
        with self._lock:
            return self._adoptions.lost(seconds) - self._adoptions.adopted

    @property
    def executors(self) -> set[str]:
        """Spark's ids of the executors with a connected subtask; empty where Spark does not tell them to tasks."""
        with self._lock:
            return {self._executors[subtask] for subtask in self._connections} - {""}

    def answer(self, seconds: float) -> Answer | None:
        """The next answer; None if there is none within the time, or after :meth:`wake`."""
        with suppress(queue.Empty):
            return self._answers.get(timeout=seconds)
        return None

    def silent(self) -> list[Silent]:
        """Subtasks that fell silent since the last call. A wait for an answer ends when there is one."""
        return [self._silent.get() for _ in range(self._silent.qsize())]

    def wake(self) -> None:
        """Ends a wait for an answer; from any thread."""
        self._answers.put(None)

    def close(self) -> None:
        """Ends all connections, also those that have proven nothing yet."""
        self._is_closed = True
        self._beats.close()
        hang_up(self._listener)  # wakes the thread that accepts
        self._listener.close()
        self._acceptor.join()  # from now on no connection is added
        with self._lock:
            for connection in self._open:
                hang_up(connection)

    def _beat(self) -> None:
        with self._lock:
            connections = (*self._connections.values(), *self._ending)
        for connection in connections:
            with self._lock:
                send(connection, encode_beat())

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                accepted, _ = self._listener.accept()
            except OSError as error:
                if not self._is_closed:
                    LOG.warning("a connection could not be accepted: %s", error)
                    time.sleep(0.1)
                continue
            connection = connection_of(accepted, self._silence)
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="subtask", daemon=True).start()

    def _serve(self, connection: Connection[Any, Any]) -> None:
        ready = None
        try:
            ready = receive_ready(connection, self._key)
            self._connected(ready, connection)
            while True:
                body = json.loads(connection.recv_bytes(MAX_FRAME))
                if not is_beat(body):
                    self._answered(ready.subtask, connection, decode_part(Answer, body, ""))
        except AuthenticationError as error:
            LOG.warning("a connection without the attempt's key was refused: %s", error)
        except BlockingIOError:
            if ready is not None:
                self._fell_silent(Silent(ready.subtask, ready.task), connection)
        except (EOFError, OSError):
            if ready is not None and not self._is_closed:
                LOG.info("subtask %d is disconnected", ready.subtask)
        except (ValueError, KeyError, TypeError):
            LOG.exception("a frame of %s cannot be read", ready)
        finally:
            self._disconnected(ready, connection)

    def _connected(self, ready: Ready, connection: Connection[Any, Any]) -> None:
        subtask = ready.subtask
        with self._lock:
            if self._is_stopping or ready.wave < self._first_wave.get(subtask, 0):
                send(connection, encode_stop())
                return
            self._executors[subtask] = ready.executor
            if (replaced := self._connections.get(subtask)) is not None:
                hang_up(replaced)
                self._lose(subtask)
            self._adoptions.connect(subtask)
            self._connections[subtask] = connection
            LOG.info("subtask %d is connected", subtask)
            if (work := self._unanswered.get(subtask)) is not None and self._adoptions.writer_of(subtask) == subtask:
                send(connection, encode_work(work.again()))

    def _answered(self, worker: int, connection: Connection[Any, Any], answer: Answer) -> None:
        subtask = answer.subtask
        with self._lock:
            if answer.is_last:
                # Its process has the records. A task that connected later can tell nothing about them.
                if self._unconfirmed.pop(connection, None) is None:
                    return
            elif self._connections.get(worker) is connection and worker == self._adoptions.writer_of(subtask):
                self._adoptions.end(subtask)
                self._unanswered.pop(subtask, None)
            else:
                return
            self._answers.put(answer)

    def _fell_silent(self, silent: Silent, connection: Connection[Any, Any]) -> None:
        with self._lock:
            if self._connections.get(silent.subtask) is connection:
                self._lose(silent.subtask)
            elif connection not in self._ending:
                return
        LOG.warning("subtask %d has been silent for %g s and is disconnected", silent.subtask, self._silence)
        self._silent.put(silent)
        self.wake()

    def _disconnected(self, ready: Ready | None, connection: Connection[Any, Any]) -> None:
        with self._lock:
            if ready is not None and self._connections.get(ready.subtask) is connection:
                self._lose(ready.subtask)
            self._ending.pop(connection, None)
            if not self._is_stopping:
                self._unconfirmed.pop(connection, None)
            self._open.remove(connection)
            connection.close()

    def _lose(self, subtask: int, *, asked: bool = False) -> None:
        """Forgets a connection. Work that its subtask did for others goes back to them, or to other adopters."""
        del self._connections[subtask]
        if not (asked or self._is_stopping):
            self.losses.add(subtask)
        for orphan in self._adoptions.lose(subtask):
            send(self._connections.get(orphan), encode_work(self._unanswered[orphan].again()))
