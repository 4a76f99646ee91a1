import { Link } from '@tanstack/react-router'
import { ExternalLink } from 'lucide-react'
import { useState } from 'react'
import type { App } from '../../../data/deployments.ts'
import { buttonClass } from '../../../ui/controls/button.tsx'
import { Menu, MenuItem } from '../../../ui/controls/menu.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { AppStatus } from '../app-status.tsx'
import { DeleteApp } from './delete-app.tsx'

interface AppsTableProps {
  readonly projectId: string
  readonly apps: readonly App[]
}

export function AppsTable({ projectId, apps }: AppsTableProps) {
  const [deleting, setDeleting] = useState<App>()
  return (
    <>
      <Table
        label="Apps"
        rows={apps}
        keyOf={({ id }) => id}
        columns={[...columnsFor(projectId), actionsColumn(setDeleting)]}
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
      {deleting !== undefined && (
        <DeleteApp projectId={projectId} app={deleting} onClose={() => setDeleting(undefined)} />
      )}
    </>
  )
}

function columnsFor(projectId: string): Column<App>[] {
  return [
    {
      title: 'App',
      cell: ({ id, name }) => (
        <Link
          to="/projects/$projectId/apps/$appId"
          params={{ projectId, appId: id }}
          className="font-medium hover:text-accent"
        >
          {name}
        </Link>
      ),
    },
    { title: 'Status', cell: (app) => <AppStatus projectId={projectId} app={app} /> },
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
    {
      title: 'Last deployment',
      align: 'right',
      wideOnly: true,
      cell: ({ latest }) => <Time at={latest.started_at ?? latest.created_at} />,
    },
  ]
}

function actionsColumn(onDelete: (app: App) => void): Column<App> {
  return {
    title: 'Action',
    align: 'right',
    cell: (app) => (
      <Menu label={`Actions for ${app.name}`}>
        <MenuItem danger onSelect={() => onDelete(app)}>
          Delete
        </MenuItem>
      </Menu>
    ),
  }
}
