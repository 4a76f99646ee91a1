import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { projectQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Confirm } from '../../ui/dialogs/confirm-dialog.tsx'
import { TextField } from '../../ui/forms/field.tsx'
import { Form, textOf } from '../../ui/forms/form.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { Queried } from '../../ui/page/query-view.tsx'

export function ProjectSettings() {
  const { projectId } = useParams({ from: '/frame/projects/$projectId' })
  const project = useQuery(projectQuery(projectId))
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (values: FormData) =>
      api.projects.update({
        params: { project_id: projectId },
        body: { name: textOf(values, 'name'), plan: textOf(values, 'plan') },
      }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['projects'] }),
  })
  return (
    <Queried query={project} what="the project">
      {({ name, plan }) => (
        <>
          <Panel title="Project">
            <div className="max-w-sm">
              <Form sending={change} submit="Save">
                <TextField label="Name" name="name" defaultValue={name} />
                <TextField
                  label="Plan"
                  name="plan"
                  defaultValue={plan}
                  hint="Says how large apps, databases and files may be."
                />
              </Form>
              {change.isSuccess && <output className="text-good">Saved.</output>}
            </div>
          </Panel>
          <Panel title="Delete the project">
            <DeleteProject projectId={projectId} name={name} />
          </Panel>
        </>
      )}
    </Queried>
  )
}

function DeleteProject({ projectId, name }: { readonly projectId: string; readonly name: string }) {
  const [asking, setAsking] = useState(false)
  const queries = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutation({
    mutationFn: () => api.projects.delete({ params: { project_id: projectId } }),
    onSuccess: async () => {
      await navigate({ to: '/projects' })
      queries.removeQueries({ queryKey: ['projects', projectId] })
      await queries.invalidateQueries({ queryKey: ['projects'] })
    },
  })
  return (
    <div className="flex flex-wrap items-center gap-4">
      <p className="flex-1 text-muted">
        Stops and removes its apps with their deployments. Databases and files must be deleted before.
      </p>
      <Button look="danger" onClick={() => setAsking(true)}>
        Delete project
      </Button>
      <Confirm
        open={asking}
        onOpenChange={setAsking}
        title={`Delete ${name}?`}
        action="Delete project"
        typed={name}
        busy={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      >
        <p>Its apps stop at once. This cannot be undone.</p>
      </Confirm>
    </div>
  )
}
