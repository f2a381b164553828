/** An outlet over Node's own streams: taken over or not, with a descriptor or without. */
import { Socket } from "node:net";
import { Writable } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { LogOutlet } from "../../src/outlet/log-outlet.ts";
import type { StandardStream } from "../../src/outlet/replaced-write.ts";
import { eventually } from "../support/eventually.ts";
import { openPipe, type Pipe } from "../support/pipe.ts";

/** As Node makes standard output of a pipe. */
function streamTo({ writeEnd }: Pipe): StandardStream {
  const socket = new Socket({ fd: writeEnd, readable: false, writable: true });
  // The pipe's descriptor is closed by whoever has opened it.
  onTestFinished(() => void socket.unref());
  return Object.assign(socket, { fd: writeEnd }) as unknown as StandardStream;
}

/** As in a thread: a stream that passes on what it has when it is asked to. */
function threadStream() {
  const passedOn: string[] = [];
  let passOn: (error?: Error) => void = () => {};
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _encoding, done) {
      passOn = (error) => {
        if (!error) passedOn.push(chunk);
        done(error);
      };
    },
  });
  return { stream: stream as unknown as StandardStream, passedOn, passOn: (error?: Error) => passOn(error) };
}

test("takes the place of the stream's write: bytes, encodings and callbacks are as they were", async () => {
  const pipe = openPipe();
  const stream = streamTo(pipe);
  new LogOutlet(stream).takeOver();
  stream.write("text\n");
  stream.write(new TextEncoder().encode("bytes\n"));
  stream.write("c3a90a", "hex");
  await new Promise<void>((resolve, fail) =>
    stream.write("called back\n", (error) => (error ? fail(error) : resolve())),
  );
  await new Promise<void>((resolve) => stream.write("0a", "hex", () => resolve()));
  expect(pipe.read()).toBe("text\nbytes\né\ncalled back\n\n");
});

test("tells writers by `drain` when its reader has taken what waited", async () => {
  const pipe = openPipe();
  const stream = streamTo(pipe);
  const outlet = new LogOutlet(stream);
  outlet.takeOver();
  while (stream.write(`${"x".repeat(999)}\n`));
  let hasDrained = false;
  stream.once("drain", () => {
    hasDrained = true;
  });
  expect(hasDrained).toBe(false);
  await eventually(() => {
    pipe.read();
    return hasDrained;
  });
  expect(outlet.health.dropped).toBe(0);
});

test("keeps its hands off a stream whose write somebody has replaced, and writes there", () => {
  const pipe = openPipe();
  const stream = streamTo(pipe);
  const theirs: unknown[] = [];
  stream.write = (chunk: unknown) => {
    theirs.push(chunk);
    return true;
  };
  const outlet = new LogOutlet(stream);
  outlet.takeOver();
  outlet.write("line\n");
  stream.write("theirs\n");
  expect({ theirs, inPipe: pipe.read() }).toEqual({ theirs: ["line\n", "theirs\n"], inPipe: "" });
});

test("a stream without a descriptor keeps 8 MB for its reader; the rest is dropped and counted", async () => {
  const { stream, passedOn, passOn } = threadStream();
  const outlet = new LogOutlet(stream);
  outlet.takeOver();
  const megabyte = `${"x".repeat(1_048_575)}\n`;
  for (let count = 0; count < 12; count++) stream.write(megabyte);
  expect(outlet.health).toMatchObject({ dropped: 4, isWell: false, reason: "its reader does not read" });
  for (let count = 0; count < 8; count++) {
    passOn();
    await eventually(() => passedOn.length > count);
  }
  await eventually(() => outlet.health.isWell);
  expect(outlet.health.dropped).toBe(4);
});

test("a stream without a descriptor is flushed when it has passed everything on, and not before", async () => {
  const { stream, passedOn, passOn } = threadStream();
  const outlet = new LogOutlet(stream);
  outlet.takeOver();
  stream.write("one\n");
  let isFlushed = false;
  const flushed = outlet.flushed().then(() => {
    isFlushed = true;
  });
  await new Promise((resume) => setImmediate(resume));
  expect(isFlushed).toBe(false);
  passOn();
  await eventually(() => {
    passOn();
    return isFlushed;
  });
  await flushed;
  expect(passedOn[0]).toBe("one\n");
});

test("a stream that fails costs its line, which is counted, and ends no process that does not listen for errors", async () => {
  const { stream, passOn } = threadStream();
  const outlet = new LogOutlet(stream);
  outlet.write("one\ntwo\n");
  passOn(Object.assign(new Error("write ENOSPC"), { code: "ENOSPC" }));
  await eventually(() => outlet.health.dropped === 2);
  expect(outlet.health).toMatchObject({ isWell: false, reason: "no space left on the device (ENOSPC)" });
});
