// Two layers on the same rows: out = relu(x * w + b), row by row, as a front end would write it.
func @layer(%x: memref<128x128xf32>, %w: memref<128x128xf32>, %b: memref<128xf32>, %out: memref<128x128xf32>)
    attributes { llvm.emit_c_interface } {
  %zero = arith.constant 0.0 : f32
  affine.for %i = 0 to 128 {
    affine.for %j = 0 to 128 {
      affine.store %zero, %out[%i, %j] : memref<128x128xf32>
    }
  }
  affine.for %i = 0 to 128 {
    affine.for %j = 0 to 128 {
      affine.for %k = 0 to 128 {
        %0 = affine.load %x[%i, %k] : memref<128x128xf32>
        %1 = affine.load %w[%k, %j] : memref<128x128xf32>
        %2 = arith.mulf %0, %1 : f32
        %3 = affine.load %out[%i, %j] : memref<128x128xf32>
        %4 = arith.addf %3, %2 : f32
        affine.store %4, %out[%i, %j] : memref<128x128xf32>
      }
    }
  }
  affine.for %i = 0 to 128 {
    affine.for %j = 0 to 128 {
      %0 = affine.load %out[%i, %j] : memref<128x128xf32>
      %1 = affine.load %b[%j] : memref<128xf32>
      %2 = arith.addf %0, %1 : f32
      %3 = arith.cmpf ogt, %2, %zero : f32
      %4 = select %3, %2, %zero : f32
      affine.store %4, %out[%i, %j] : memref<128x128xf32>
    }
  }
  return
}
