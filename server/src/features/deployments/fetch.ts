import { withVisible } from '../../contract/invisible.ts'
import { createMasker } from '../../logs/masking.ts'
import { sayAlive } from '../../platform/alive.ts'
import type { ReleaseStore } from '../../runtimes/runtime.ts'
import {
  type CommitInfo,
  type FetchedSource,
  type FileRule,
  type GitAccess,
  SourceError,
  type Sources,
} from '../../sources/sources.ts'
import type { DiskGuard, DiskLimit, Unmeasured } from './disk-guard.ts'
import { DeploymentError } from './failure.ts'
import { releaseRef } from './instances.ts'
import type { NoteInLog } from './release-log.ts'
import type { Variables } from './release-variables.ts'
import type { JobTransitions } from './rows.ts'
import type { DeploymentSecrets } from './secrets.ts'
import { within } from './steps.ts'
import type { CommitDetails, DeploymentRow } from './tables.ts'

/**
 * Fetches the sources of a deployment into a folder of its release, and records the commit. Nothing may be built before
 * the sources are within their limit.
 */
export type FetchStep = (
  row: DeploymentRow,
  target: { readonly directory: string; readonly releases: Pick<ReleaseStore, 'diskUsage'> },
  signal: AbortSignal,
) => Promise<Pick<Unmeasured<unknown>, 'withinLimit'>>

export interface AccountRights {
  filesFor(accountId: string): FileRule
  mayUseAgent(accountId: string): boolean
}

interface FetchDependencies {
  readonly sources: Pick<Sources, 'fetch' | 'fetchUploaded' | 'cacheSize'>
  readonly packOf: (sourceId: string) => string
  readonly rights: AccountRights
  readonly disk: DiskGuard
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly accessOf: (row: DeploymentRow) => Promise<GitAccess>
  readonly jobs: Pick<JobTransitions, 'fetched'>
  readonly note: NoteInLog
  readonly settings: { readonly fetchTimeoutMs: number; readonly mostSourceBytes: number }
}

export function createFetchStep(dependencies: FetchDependencies): FetchStep {
  const { sources, disk, jobs, note, secrets, settings } = dependencies
  return async (row, { directory, releases }, signal) => {
    let cachedBefore = 0
    // The files and the growth of the caches each have this limit.
    const limit: DiskLimit = {
      stage: 'fetch',
      mostBytes: settings.mostSourceBytes,
      async baseline() {
        cachedBefore = await sources.cacheSize(row.project_id)
        return 0
      },
      async measure(enough) {
        const [files, cached] = await Promise.all([
          releases.diskUsage(releaseRef(row), 'files', enough),
          sources.cacheSize(row.project_id, enough + cachedBefore),
        ])
        return Math.max(files, cached - cachedBefore)
      },
    }
    const { value: fetched, withinLimit } = await within('fetch', settings.fetchTimeoutMs, signal, (limited) =>
      disk.guard(limit, limited, (guarded) =>
        sayAlive({ what: 'fetching the source', say: (line) => note(releaseRef(row), 'build', line) }, () =>
          fetchRow(dependencies, row, directory, guarded),
        ).catch(asDeploymentError),
      ),
    )
    await jobs.fetched(row, { ...fetched, info: fetched.info && commitDetails(fetched.info, secrets.variablesOf(row)) })
    return { withinLimit }
  }
}

async function fetchRow(
  { sources, packOf, rights, accessOf }: FetchDependencies,
  row: DeploymentRow,
  directory: string,
  signal: AbortSignal,
): Promise<FetchedSource> {
  const { project_id: projectId, branch, commit } = row
  const files = rights.filesFor(row.account_id)
  if (row.source_id !== null && commit !== null) {
    const pack = { path: packOf(row.source_id), commit }
    const { hostKeys } = await accessOf(row)
    return {
      branch,
      commit,
      info: await sources.fetchUploaded({ projectId, files, directory, pack, hostKeys }, signal),
    }
  }
  const useAgent = rights.mayUseAgent(row.account_id)
  const request = { projectId, gitUrl: row.git_url, branch, commit, files, useAgent, directory }
  return sources.fetch({ ...request, ...(await accessOf(row)) }, signal)
}

function asDeploymentError(error: unknown): never {
  if (error instanceof SourceError) throw new DeploymentError('fetch', error.code, error.message)
  throw error
}

const longestMessage = 1_000
const longestName = 200

/**
 * Returns the stored details of a commit: short texts that a terminal can show, without the values of variables, which
 * a message may repeat. Values are masked before the texts are cut: otherwise half of a value could remain.
 */
function commitDetails(info: CommitInfo, variables: Variables): CommitDetails {
  const { mask } = createMasker(Object.values(variables))
  return {
    message: cut(lines(mask(info.message)), longestMessage),
    author: cut(
      withVisible(mask(info.author))
        .replace(/\p{Cc}+/gu, ' ')
        .trim(),
      longestName,
    ),
    at: cut(info.at.trim(), longestName),
  }
}

/** Removes control characters, which a terminal would obey, except line ends. */
function lines(text: string): string {
  const plain = text.replace(/\r\n?/g, '\n').replace(/\t/g, ' ')
  return withVisible(plain.replace(/(?!\n)\p{Cc}/gu, '')).trim()
}

const cut = (text: string, length: number): string => [...text].slice(0, length).join('').trimEnd()
