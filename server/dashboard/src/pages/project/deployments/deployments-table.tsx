import { Link } from '@tanstack/react-router'
import { GitBranch } from 'lucide-react'
import type { Release } from '../../../data/deployments.ts'
import { Status } from '../../../ui/display/status.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { DeploymentDuration } from './deployment-duration.tsx'

interface DeploymentsTableProps {
  readonly projectId: string
  readonly releases: readonly Release[]
}

export function DeploymentsTable({ projectId, releases }: DeploymentsTableProps) {
  return (
    <Table
      label="Deployments"
      rows={releases}
      keyOf={({ id }) => id}
      columns={columnsFor(projectId)}
      empty={
        <Empty title="No deployment yet">
          <p>Deploy a git repository here, or on every push: see Get started.</p>
        </Empty>
      }
    />
  )
}

function columnsFor(projectId: string): Column<Release>[] {
  return [
    {
      title: 'App',
      cell: ({ id, app }) => (
        <Link
          to="/projects/$projectId/deployments/$deploymentId"
          params={{ projectId, deploymentId: id }}
          className="font-medium hover:text-accent"
        >
          {app.name}
        </Link>
      ),
    },
    { title: 'Status', cell: ({ status }) => <Status value={status} /> },
    { title: 'Branch and commit', wideOnly: true, cell: (release) => <Commit release={release} /> },
    { title: 'Duration', wideOnly: true, cell: (release) => <DeploymentDuration deployment={release} /> },
    { title: 'Created', align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
  ]
}

function Commit({ release: { branch, commit } }: { readonly release: Release }) {
  return (
    <span className="flex items-center gap-2">
      <GitBranch size={14} className="shrink-0 text-muted" aria-hidden="true" />
      <span className="max-w-48 truncate">{branch ?? 'default'}</span>
      {commit !== null && <code className="text-[12px] text-muted">{commit.hash.slice(0, 7)}</code>}
    </span>
  )
}
