/** `everbeat doctor`: what is wrong, and what to do about it. */
import type { Command } from "commander";
import type { Finding } from "../../doctor/finding.ts";
import { adviceText } from "../advice-text.ts";
import { addCommand, type Call, type Cli } from "../command.ts";
import { examine } from "../doctor/examine.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { linesOf } from "../printable.ts";
import type { Screen } from "../screen.ts";
import { prose } from "../wrap.ts";

export function addDoctor(cli: Cli, program: Command): void {
  addCommand(cli, program, {
    usage: "doctor",
    description: "check the database, its version, permissions, pooler, recovery and clock",
    group: "Set up:",
    examples: ["everbeat doctor", "everbeat doctor --database postgres://app@db.example.com/app --json"],
    run: runDoctor,
  });
}

async function runDoctor(call: Call): Promise<ExitCode> {
  const { screen } = call;
  const findings = await examine(call);
  screen.progress.clear();
  const isWell = findings.every((finding) => finding.mark !== "wrong");
  screen.answer({ isWell, findings }, () => describe(findings, screen));
  return isWell ? EXIT.ok : EXIT.failed;
}

const MARKS = {
  good: { sign: "✓", colour: "green" },
  warning: { sign: "!", colour: "yellow" },
  wrong: { sign: "✗", colour: "red" },
  skipped: { sign: "–", colour: "dim" },
} as const;

function describe(findings: readonly Finding[], screen: Screen): string[] {
  const { colours, width } = screen;
  const longest = Math.max(...findings.map((finding) => finding.check.length));
  const indent = " ".repeat(longest + 4);
  const lines = findings.flatMap(({ check, mark, found, advice }) => {
    const { sign, colour } = MARKS[mark];
    const name = check.padEnd(longest);
    const paintName = () => `${colours[colour](sign)} ${colours.bold(name)}  `;
    const [first = "", ...more] = linesOf(found);
    return [
      ...prose(first, { width, mark: `${sign} ${name}  `, paintMark: paintName }),
      ...more.flatMap((line) => prose(line, { width, mark: indent })),
      ...advice.flatMap((each) => adviceText(each, screen, indent)),
    ];
  });
  return [...lines, "", summary(findings)];
}

function summary(findings: readonly Finding[]): string {
  const count = (mark: Finding["mark"]) => findings.filter((finding) => finding.mark === mark).length;
  const [wrong, warnings] = [count("wrong"), count("warning")];
  const notes = warnings === 0 ? "" : `, ${warnings} ${warnings === 1 ? "thing" : "things"} to know`;
  if (wrong === 0) return `All is well${notes}.`;
  return `${wrong} ${wrong === 1 ? "thing is" : "things are"} wrong${notes}.`;
}
