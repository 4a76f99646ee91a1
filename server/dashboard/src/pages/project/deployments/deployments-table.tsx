import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { GitBranch } from 'lucide-react'
import type { DeploymentItem } from '../../../data/deployments.ts'
import { deploymentSummaryQuery } from '../../../data/queries.ts'
import { Status } from '../../../ui/display/status.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { DeploymentDuration } from './deployment-duration.tsx'

interface DeploymentsTableProps {
  readonly projectId: string
  readonly deployments: readonly DeploymentItem[]
}

export function DeploymentsTable({ projectId, deployments }: DeploymentsTableProps) {
  return (
    <Table
      label="Deployments"
      rows={deployments}
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

function columnsFor(projectId: string): Column<DeploymentItem>[] {
  return [
    {
      title: 'App',
      cell: ({ id, name }) => (
        <Link
          to="/projects/$projectId/deployments/$deploymentId"
          params={{ projectId, deploymentId: id }}
          className="font-medium hover:text-accent"
        >
          {name}
        </Link>
      ),
    },
    { title: 'Status', cell: ({ status }) => <Status value={status} /> },
    { title: 'Branch and commit', wideOnly: true, cell: ({ id }) => <Commit projectId={projectId} id={id} /> },
    { title: 'Duration', wideOnly: true, cell: ({ id }) => <Duration projectId={projectId} id={id} /> },
    { title: 'Created', align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
  ]
}

interface CellProps {
  readonly projectId: string
  readonly id: string
}

function Commit({ projectId, id }: CellProps) {
  const { data } = useQuery(deploymentSummaryQuery(projectId, id))
  if (data === undefined) return <span className="text-muted">…</span>
  return (
    <span className="flex items-center gap-2">
      <GitBranch size={14} className="shrink-0 text-muted" aria-hidden="true" />
      <span className="max-w-48 truncate">{data.branch ?? 'default'}</span>
      {data.commit !== null && <code className="text-[12px] text-muted">{data.commit.slice(0, 7)}</code>}
    </span>
  )
}

function Duration({ projectId, id }: CellProps) {
  const { data } = useQuery(deploymentSummaryQuery(projectId, id))
  return data === undefined ? <span className="text-muted">…</span> : <DeploymentDuration deployment={data} />
}
