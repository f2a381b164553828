/** Opens a runner's channel. A runner that the operating system does not let us make is one that ends at once. */
import type { ChannelListener, ChannelOptions, OpenChannel, RunnerChannel } from "./channel.ts";

/** In the place of a runner that was not made. */
export const NO_CHANNEL: RunnerChannel = {
  pid: 0,
  send() {},
  terminate() {},
  kill() {},
  stderrTail: () => "",
};

/** Node throws some of the system's refusals at once, such as ENOMEM, and tells of others by an event. */
export function openChannel(open: OpenChannel, listener: ChannelListener, options: ChannelOptions): RunnerChannel {
  try {
    return open(listener, options);
  } catch (error) {
    // Later: whoever makes the runner does not have it yet.
    setImmediate(() => listener.onExit({ exitCode: null, signal: null, message: (error as Error).message }));
    return NO_CHANNEL;
  }
}
