/** `everbeat alerts`: what is wrong at this moment, and what has been. */
import type { Command } from "commander";
import { ALERT_KIND_NAMES, type AlertKind } from "../../alert-kinds.ts";
import { isOneOf } from "../../config/checks.ts";
import type { ValueOf } from "../../operations/operations.ts";
import { adviceText } from "../advice-text.ts";
import { checkedBy, type Since, since, wholeNumber } from "../arguments.ts";
import { asking } from "../asking.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import type { Screen } from "../screen.ts";
import { paragraphs } from "../table.ts";
import { fromNow, momentOf } from "../times.ts";
import { prose } from "../wrap.ts";

interface AlertsOptions {
  readonly all?: boolean;
  readonly kind?: AlertKind;
  readonly subject?: string;
  readonly since?: Since;
  readonly limit: number;
}

type Alert = ValueOf<"alerts.list">["alerts"][number];

export function addAlerts(cli: Cli, program: Command): void {
  addCommand<AlertsOptions>(cli, program, {
    usage: "alerts",
    description: "what is wrong at this moment, or has been, and what helps",
    group: "Look and act:",
    examples: [
      "everbeat alerts",
      "everbeat alerts --since 1d",
      "everbeat alerts --all --kind crash-loop",
      "everbeat alerts --json | jq '.alerts[].message'",
    ],
    configure: (command) =>
      command
        .option("--all", "also those that are over")
        .option(
          "--since <when>",
          "those that are open, and those that were over since: a duration such as 1h, or an ISO 8601 time",
          since,
        )
        .option("--kind <kind>", "of this kind only", checkedBy(isOneOf(ALERT_KIND_NAMES)))
        .option("--subject <subject>", "of this queue, task, replica, … only")
        .option("--limit <number>", "how many at most, 1 to 1000", wholeNumber({ min: 1, max: 1_000 }), 100),
    run: showAlerts,
  });
}

async function showAlerts(call: Call<AlertsOptions>): Promise<undefined> {
  const { options, screen } = call;
  const { kind, subject, limit } = options;
  const isOnlyOpen = !options.all && options.since === undefined;
  await asking(call, async (asked) => {
    const from = await momentOf(options.since, asked);
    const answer = await asked.ask("alerts.list", { open: isOnlyOpen || undefined, kind, subject, since: from, limit });
    const now = await asked.now();
    screen.answer(answer, () => {
      const { alerts } = answer;
      if (alerts.length > 0) return paragraphs(...alerts.map((alert) => describeAlert(alert, now, screen)));
      if (!isOnlyOpen) return "There is no such alert on record.";
      const isFiltered = kind !== undefined || subject !== undefined;
      return isFiltered ? "No open alert fits these filters." : "Nothing is wrong: no alert is open.";
    });
  });
  return undefined;
}

function describeAlert(alert: Alert, now: Date, screen: Screen): string[] {
  const { colours, width } = screen;
  const { kind, subject, severity, message, raisedAt, times, resolvedAt, advice } = alert;
  const colour = resolvedAt !== null ? colours.dim : severity === "critical" ? colours.red : colours.yellow;
  const when = [
    `raised ${fromNow(raisedAt, now)}`,
    ...(times > 1 ? [`met ${times} times`] : []),
    ...(resolvedAt === null ? [] : [`over ${fromNow(resolvedAt, now)}`]),
  ].join(", ");
  const title = prose(`${subject}, ${when}`, {
    width,
    mark: `${resolvedAt === null ? "!" : "✓"} ${kind}  `,
    paintMark: colour,
  });
  const helps = resolvedAt === null ? advice.flatMap((each) => adviceText(each, screen)) : [];
  return [...title, ...prose(message, { width, mark: "  " }), ...helps];
}
