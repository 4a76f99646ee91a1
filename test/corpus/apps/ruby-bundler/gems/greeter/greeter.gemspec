Gem::Specification.new do |spec|
  spec.name = 'greeter'
  spec.version = '1.0.0'
  spec.summary = 'Greets'
  spec.authors = ['Example']
  spec.files = ['lib/greeter.rb']
end
