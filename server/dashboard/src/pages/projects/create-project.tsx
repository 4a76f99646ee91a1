import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api } from '../../data/client.ts'
import { TextField } from '../../ui/forms/field.tsx'
import { Form } from '../../ui/forms/form.tsx'
import { textOf } from '../../ui/forms/values.ts'
import { PlanField, projectLimits, RegionField } from '../plans/plan-fields.tsx'

export function CreateProject({ onCancel }: { readonly onCancel: () => void }) {
  const queryClient = useQueryClient()
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
      await queryClient.invalidateQueries({ queryKey: ['projects'] })
      await navigate({ to: '/projects/$projectId', params: { projectId: id } })
    },
  })
  return (
    <Form mutation={create} submit="Create project" onCancel={onCancel}>
      <TextField label="Name" name="name" autoComplete="off" />
      <div className="grid gap-4 sm:grid-cols-2">
        <PlanField plan="free" limits={projectLimits} />
        <RegionField />
      </div>
    </Form>
  )
}
