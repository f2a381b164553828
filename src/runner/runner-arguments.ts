/** Which of Node's own arguments a runner is started with: its replica's, so that its modules load in the same way. Pure. */
const WITH_VALUE = new Set(["-e", "--eval", "-p", "--print"]);
/** A debugger's port is taken, a watcher and a test runner belong to the replica, and the runner is no text given on the command line. */
const NOT_FOR_RUNNERS = /^--(inspect|debug|watch|test|input-type|prof|cpu-prof|heap-prof|check|interactive)/;

export function runnerArguments(ofReplica: readonly string[]): string[] {
  const kept: string[] = [];
  for (let index = 0; index < ofReplica.length; index++) {
    const argument = ofReplica[index] as string;
    if (WITH_VALUE.has(argument)) index++;
    else if (!NOT_FOR_RUNNERS.test(argument)) kept.push(argument);
  }
  return kept;
}
