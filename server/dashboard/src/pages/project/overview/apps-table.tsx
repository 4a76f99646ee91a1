import { Link } from '@tanstack/react-router'
import { ExternalLink } from 'lucide-react'
import { type AppSummary, type DeploymentItem, latestByApp } from '../../../data/deployments.ts'
import { buttonClass } from '../../../ui/controls/button.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Empty } from '../../../ui/page/states.tsx'

interface AppsTableProps {
  readonly projectId: string
  readonly deployments: readonly DeploymentItem[]
}

export function AppsTable({ projectId, deployments }: AppsTableProps) {
  return (
    <Table
      label="Apps"
      rows={latestByApp(deployments)}
      keyOf={({ name }) => name}
      columns={columnsFor(projectId)}
      empty={
        <Empty title="Nothing is deployed yet">
          <Link
            to="/projects/$projectId/deployments"
            params={{ projectId }}
            className={buttonClass({ variant: 'primary' })}
          >
            Deploy an app
          </Link>
        </Empty>
      }
    />
  )
}

function columnsFor(projectId: string): Column<AppSummary>[] {
  return [
    {
      title: 'App',
      cell: ({ name, latest }) => (
        <Link
          to="/projects/$projectId/deployments/$deploymentId"
          params={{ projectId, deploymentId: latest.id }}
          className="font-medium hover:text-accent"
        >
          {name}
        </Link>
      ),
    },
    { title: 'Status', cell: ({ serving, latest }) => <Status value={(serving ?? latest).status} /> },
    {
      title: 'URL',
      wideOnly: true,
      cell: ({ url }) => (
        <a href={url} target="_blank" rel="noreferrer" className="inline-flex items-center gap-1 hover:text-accent">
          {url.replace(/^https?:\/\//, '')}
          <ExternalLink size={12} aria-hidden="true" />
        </a>
      ),
    },
    { title: 'Last deployment', align: 'right', cell: ({ latest }) => <Time at={latest.created_at} /> },
  ]
}
