import { appendFileSync } from 'node:fs'
import type { Deployment } from './api/outcome.ts'
import type { Report } from './report.ts'
import { warning } from './runner.ts'

export interface SummaryFacts {
  readonly name: string
  /** Empty when only a commit is known. */
  readonly branch: string
  /** The commit that was or should have been deployed; empty when unknown. */
  readonly commit: string
  readonly deployment: Deployment | undefined
  /** The address of the deployment in the dashboard. */
  readonly link: string | undefined
  /** The elapsed time, formatted. */
  readonly took: string
}

/** Returns the job summary in Markdown. Untrusted text is escaped. */
export function summaryOf(report: Report, facts: SummaryFacts): string {
  const heading = report.ok ? (report.status === 'running' ? 'Deployed' : 'Deploying') : 'Not deployed:'
  const { deployment, link } = facts
  const rows = [
    ['Status', escapeLine(report.status)],
    ['Address', escapeLine(deployment?.url ?? '')],
    ['Branch', escapeLine(facts.branch)],
    ['Commit', escapeLine(facts.commit)],
    ['Deployment', link === undefined ? '' : `<a href="${escapeLine(link)}">${escapeLine(deployment?.id ?? '')}</a>`],
    ['Time', facts.took],
  ].filter(([, value]) => value !== '')
  return [
    `### ${heading} ${escapeLine(facts.name)}`,
    ['| | |', '|---|---|', ...rows.map(([title, value]) => `| ${title} | ${value} |`)].join('\n'),
    ...(report.ok ? [] : report.messages.map(escapeLine)),
    ...(report.output === undefined ? [] : [`<pre>${escapeHtml(report.output.join('\n'))}</pre>`]),
    '',
  ].join('\n\n')
}

/** Writes the job summary if the runner supports it. A failure to write it is only a warning. */
export function writeSummary(markdown: string, path: string | undefined): void {
  if (!path) return
  try {
    appendFileSync(path, markdown)
  } catch (error) {
    warning(`The job summary could not be written: ${String(error)}`)
  }
}

/** Escapes text for one line of Markdown. Underscores and dots are kept, so that addresses remain links. */
export function escapeLine(text: string): string {
  const line = escapeHtml(text.replace(/\p{Cc}+/gu, ' '))
  return line.replace(/[\\|*[\]~#`@]/g, (character) => `&#${character.charCodeAt(0)};`)
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
