console.log('Hello from Parcel')
