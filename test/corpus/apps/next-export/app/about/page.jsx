export default function About() {
  return <h1>About the export</h1>
}
