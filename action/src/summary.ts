import { appendFileSync } from 'node:fs'
import type { Deployment } from './deploy.ts'
import type { Report } from './report.ts'
import { warning } from './runner.ts'

export interface SummaryFacts {
  readonly name: string
  /** Empty where only a commit is known. */
  readonly branch: string
  /** The commit that was deployed, or was to be; empty when nobody knows. */
  readonly commit: string
  readonly deployment: Deployment | undefined
  /** Where the deployment is seen in the dashboard. */
  readonly link: string | undefined
  /** Time taken, for people. */
  readonly took: string
}

/** The job summary in Markdown. Everything that is not ours is escaped. */
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

/** Writes the job summary where the runner offers one. A summary that cannot be written fails no deployment. */
export function writeSummary(markdown: string, path: string | undefined): void {
  if (!path) return
  try {
    appendFileSync(path, markdown)
  } catch (error) {
    warning(`The job summary could not be written: ${String(error)}`)
  }
}

/** For one line of Markdown. Underscores and dots stay as they are, so that addresses remain links. */
export function escapeLine(text: string): string {
  const line = escapeHtml(text.replace(/\p{Cc}+/gu, ' '))
  return line.replace(/[\\|*[\]~#`@]/g, (character) => `&#${character.charCodeAt(0)};`)
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
