Gem::Specification.new do |spec|
  spec.name = 'not-needed-here'
  spec.version = '1.0.0'
  spec.summary = 'Is for development'
  spec.authors = ['Example']
end
