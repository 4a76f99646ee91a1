import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { App } from '../../data/deployments.ts'
import { Status } from '../../ui/display/status.tsx'
import { Time } from '../../ui/display/time.tsx'

/** The state of the release that visitors get and, if the latest deployment is another one, its outcome. */
export function AppStatus({ projectId, app: { serving, latest } }: { readonly projectId: string; readonly app: App }) {
  if (serving === null || serving.id === latest.id) {
    return (
      <ReleaseLink projectId={projectId} id={latest.id}>
        <Status value={latest.status} />
      </ReleaseLink>
    )
  }
  return (
    <span className="inline-flex flex-wrap items-center gap-x-2 gap-y-1">
      <ReleaseLink projectId={projectId} id={serving.id}>
        <Status value={serving.status} />
      </ReleaseLink>
      <ReleaseLink
        projectId={projectId}
        id={latest.id}
        className={latest.status === 'failed' ? 'text-bad' : 'text-muted'}
      >
        last deployment {latest.status} <Time at={latest.finished_at ?? latest.created_at} />
      </ReleaseLink>
    </span>
  )
}

interface ReleaseLinkProps {
  readonly projectId: string
  readonly id: string
  readonly className?: string
  readonly children: ReactNode
}

function ReleaseLink({ projectId, id, className = '', children }: ReleaseLinkProps) {
  return (
    <Link
      to="/projects/$projectId/deployments/$deploymentId"
      params={{ projectId, deploymentId: id }}
      className={`hover:text-accent ${className}`}
    >
      {children}
    </Link>
  )
}
