import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { usageQuery } from '../../data/queries.ts'
import { formatBytes } from '../../ui/display/bytes.ts'
import { RelativeBar } from '../../ui/display/relative-bar.tsx'
import { Status } from '../../ui/display/status.tsx'
import { type Column, Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Empty } from '../../ui/page/states.tsx'

type Project = ResponseBody<'projects.list'>['projects'][number]
type Resources = ResponseBody<'projects.usage'>['usage'][number]['resources']

export function ProjectsTable({ projects }: { readonly projects: readonly Project[] }) {
  const { data } = useQuery(usageQuery)
  const resources = new Map(data?.usage.map((each) => [each.id, each.resources]))
  return (
    <Table
      label="Projects"
      rows={projects}
      keyOf={({ id }) => id}
      columns={columnsFor(resources)}
      empty={
        <Empty title="No project yet">
          <p>A project holds apps, databases and files.</p>
        </Empty>
      }
    />
  )
}

function columnsFor(resources: ReadonlyMap<string, Resources>): Column<Project>[] {
  const maxStorage = Math.max(0, ...[...resources.values()].map(({ storage_gb }) => storage_gb))
  return [
    { title: 'Name', cell: (project) => <Name project={project} /> },
    { title: 'Status', cell: ({ status }) => <Status value={status} /> },
    {
      title: 'Deployments',
      align: 'right',
      wideOnly: true,
      cell: ({ id }) => resources.get(id)?.deployments ?? '–',
    },
    {
      title: 'Databases',
      align: 'right',
      wideOnly: true,
      cell: ({ id }) => resources.get(id)?.databases ?? '–',
    },
    {
      title: 'Storage',
      wideOnly: true,
      cell: ({ id }) => {
        const storage = resources.get(id)?.storage_gb
        return storage === undefined ? (
          '–'
        ) : (
          <RelativeBar value={storage} max={maxStorage} text={formatBytes(storage * 1e9)} />
        )
      },
    },
    { title: 'Region', cell: ({ region }) => region, wideOnly: true },
    { title: 'Created', cell: ({ created_at }) => <Time at={created_at} />, align: 'right' },
  ]
}

function Name({ project: { id, name, status } }: { readonly project: Project }) {
  if (status === 'deleting') return <span className="text-muted">{name}</span>
  return (
    <Link to="/projects/$projectId" params={{ projectId: id }} className="font-medium hover:text-accent">
      {name}
    </Link>
  )
}
