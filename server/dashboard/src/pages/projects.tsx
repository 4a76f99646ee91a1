import { useMutation, useQueries, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { api } from '../data/client.ts'
import { projectQuery, projectsQuery } from '../data/queries.ts'
import { Button } from '../ui/controls/button.tsx'
import { Dialog } from '../ui/dialogs/dialog.tsx'
import { bytes } from '../ui/display/bytes.ts'
import { PartBar } from '../ui/display/relative-bar.tsx'
import { Status } from '../ui/display/status.tsx'
import { Table } from '../ui/display/table.tsx'
import { Time } from '../ui/display/time.tsx'
import { TextField } from '../ui/forms/field.tsx'
import { Form, textOf } from '../ui/forms/form.tsx'
import { Page, Panel } from '../ui/page/page.tsx'
import { Queried } from '../ui/page/query-view.tsx'
import { Empty } from '../ui/page/states.tsx'

/** Of so many projects the figures are asked for, each in a request of its own. */
const mostFigures = 30

export function Projects() {
  const [creating, setCreating] = useState(false)
  const list = useQuery(projectsQuery)
  const active = list.data?.projects.filter(({ status }) => status === 'active').slice(0, mostFigures) ?? []
  const details = useQueries({ queries: active.map(({ id }) => projectQuery(id)) })
  const figures = new Map(
    details.flatMap(({ data }) => (data === undefined ? [] : [[data.id, data.resources] as const])),
  )
  const mostStored = Math.max(0, ...[...figures.values()].map(({ storage_gb }) => storage_gb))
  const create = (
    <Button look="primary" icon={<Plus size={16} />} onClick={() => setCreating(true)}>
      New project
    </Button>
  )
  return (
    <Page title="Projects" lead={list.data && `${list.data.total} in all`} actions={create}>
      <Panel flush>
        <Queried query={list} what="projects">
          {({ projects }) =>
            projects.length === 0 ? (
              <Empty title="No project yet">
                <p>A project holds apps, databases and files.</p>
              </Empty>
            ) : (
              <Table
                label="Projects"
                rows={projects}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: 'Name',
                    cell: ({ id, name, status }) =>
                      status === 'deleting' ? (
                        <span className="text-muted">{name}</span>
                      ) : (
                        <Link
                          to="/projects/$projectId"
                          params={{ projectId: id }}
                          className="font-medium hover:text-accent"
                        >
                          {name}
                        </Link>
                      ),
                  },
                  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
                  {
                    title: 'Deployments',
                    align: 'right',
                    wide: true,
                    cell: ({ id }) => figures.get(id)?.deployments ?? '–',
                  },
                  {
                    title: 'Databases',
                    align: 'right',
                    wide: true,
                    cell: ({ id }) => figures.get(id)?.databases ?? '–',
                  },
                  {
                    title: 'Storage',
                    wide: true,
                    cell: ({ id }) => {
                      const stored = figures.get(id)?.storage_gb
                      return stored === undefined ? (
                        '–'
                      ) : (
                        <PartBar value={stored} most={mostStored} text={bytes(stored * 1e9)} />
                      )
                    },
                  },
                  { title: 'Region', cell: ({ region }) => region, wide: true },
                  { title: 'Created', cell: ({ created_at }) => <Time at={created_at} />, align: 'right' },
                ]}
              />
            )
          }
        </Queried>
      </Panel>
      <Dialog open={creating} onOpenChange={setCreating} title="New project">
        <CreateProject onCancel={() => setCreating(false)} />
      </Dialog>
    </Page>
  )
}

function CreateProject({ onCancel }: { readonly onCancel: () => void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const create = useMutation({
    mutationFn: (values: FormData) => {
      const plan = textOf(values, 'plan')
      const region = textOf(values, 'region')
      return api.projects.create({
        body: { name: textOf(values, 'name'), ...(plan !== '' && { plan }), ...(region !== '' && { region }) },
      })
    },
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['projects'] })
      await navigate({ to: '/projects/$projectId', params: { projectId: id } })
    },
  })
  return (
    <Form sending={create} submit="Create project" onCancel={onCancel}>
      <TextField label="Name" name="name" autoComplete="off" />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField label="Plan" name="plan" placeholder="free" autoComplete="off" />
        <TextField label="Region" name="region" placeholder="the default one" autoComplete="off" />
      </div>
    </Form>
  )
}
