import type { ResponseBody } from '../contract/operations.ts'
import type { RunRow } from './tables.ts'

export function runView(row: RunRow): ResponseBody<'runs.list'>['runs'][number] {
  return {
    id: row.id,
    app_id: row.app_id,
    deployment_id: row.deployment_id,
    schedule_id: row.schedule_id,
    due_at: row.due_at?.toISOString() ?? null,
    command: row.command,
    terminal: row.terminal !== null,
    status: row.status,
    exit_code: row.exit_code,
    signal: row.signal,
    problem: row.problem,
    created_at: row.created_at.toISOString(),
    started_at: row.started_at?.toISOString() ?? null,
    finished_at: row.finished_at?.toISOString() ?? null,
  }
}

/** The characters of a command that an entry of the audit log keeps: there are far more entries than runs. */
const mostAudited = 2_000

/** Returns a command for the audit log, cut where it is long. */
export function auditedCommand(command: readonly string[]): string[] {
  const kept: string[] = []
  let left = mostAudited
  for (const word of command) {
    if (word.length > left) return [...kept, `${word.slice(0, left).toWellFormed()}…`]
    kept.push(word)
    left -= word.length
  }
  return kept
}
