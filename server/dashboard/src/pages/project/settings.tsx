import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { projectQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { ConfirmDialog } from '../../ui/dialogs/confirm-dialog.tsx'
import { TextField } from '../../ui/forms/field.tsx'
import { Form } from '../../ui/forms/form.tsx'
import { sentTexts } from '../../ui/forms/values.ts'
import { Panel } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { PlanField, projectLimits } from '../plans/plan-fields.tsx'
import { Registries } from './registries/registries.tsx'

export function ProjectSettings() {
  const { projectId } = useParams({ from: '/layout/projects/$projectId' })
  const project = useQuery(projectQuery(projectId))
  const queryClient = useQueryClient()
  const update = useMutation({
    mutationFn: (values: FormData) =>
      api.projects.update({
        params: { project_id: projectId },
        body: sentTexts(values, ['name', 'plan']),
      }),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ['projects'] }),
  })
  return (
    <QueryView query={project} label="the project">
      {({ name, plan }) => (
        <>
          <Panel title="Project">
            <div className="max-w-sm">
              <Form mutation={update} saved={{ name, plan }} submit="Save">
                <TextField label="Name" name="name" />
                <PlanField plan={plan} limits={projectLimits} />
              </Form>
            </div>
          </Panel>
          <Registries projectId={projectId} />
          <Panel title="Delete the project">
            <DeleteProject projectId={projectId} name={name} />
          </Panel>
        </>
      )}
    </QueryView>
  )
}

function DeleteProject({ projectId, name }: { readonly projectId: string; readonly name: string }) {
  const [confirming, setConfirming] = useState(false)
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutation({
    mutationFn: () => api.projects.delete({ params: { project_id: projectId } }),
    onSuccess: async () => {
      await navigate({ to: '/projects' })
      queryClient.removeQueries({ queryKey: ['projects', projectId] })
      await queryClient.invalidateQueries({ queryKey: ['projects'] })
    },
  })
  return (
    <div className="flex flex-wrap items-center gap-4">
      <p className="flex-1 text-muted">
        Stops and removes its apps with their deployments. Its databases and files must be deleted first.
      </p>
      <Button variant="danger" onClick={() => setConfirming(true)}>
        Delete project
      </Button>
      <ConfirmDialog
        open={confirming}
        onClose={() => setConfirming(false)}
        title={`Delete ${name}?`}
        action="Delete project"
        confirmationText={name}
        mutation={remove}
      >
        <p>Its apps stop immediately. This cannot be undone.</p>
      </ConfirmDialog>
    </div>
  )
}
