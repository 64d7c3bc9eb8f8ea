module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<512xbf16>, %arg1: tensor<512xbf16>, %arg2: tensor<16xbf16>, %arg3: tensor<256xbf16>, %arg4: tensor<128xbf16>, %arg5: tensor<128xbf16>, %arg6: tensor<32xf32>, %arg7: tensor<32xf32>, %arg8: tensor<256xbf16>, %arg9: tensor<16xbf16>, %arg10: tensor<512xbf16>, %arg11: tensor<512xbf16>, %arg12: tensor<512xbf16>, %arg13: tensor<32xi32>, %arg14: tensor<32xi32>, %arg15: tensor<32xi32>, %arg16: tensor<32xi32>, %arg17: tensor<32xi32>, %arg18: tensor<3xi32>, %arg19: tensor<32xi64>, %arg20: tensor<2xi64>) -> (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<16xf32>, tensor<256xf32>, tensor<256xf32>, tensor<128xf32>, tensor<128xf32>, tensor<16xf32>, tensor<32x16xbf16>, tensor<32x16xbf16>) {
    %1 = "stablehlo.reshape"(%arg0) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %2 = "stablehlo.reshape"(%arg1) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %3 = "stablehlo.convert"(%2) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %4 = "stablehlo.reshape"(%arg1) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %5 = "stablehlo.convert"(%4) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %6 = "stablehlo.multiply"(%3, %5) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %7 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "stablehlo.reduce"(%6, %7) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<32x16xf32>, tensor<f32>) -> tensor<32xf32>
    %9 = "stablehlo.constant"() {value = dense<1.6e+01> : tensor<1xf32>} : () -> tensor<1xf32>
    %10 = "stablehlo.reshape"(%8) : (tensor<32xf32>) -> tensor<32x1xf32>
    %11 = "stablehlo.constant"() {value = dense<1.6e+01> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
    %12 = "stablehlo.constant"() {value = dense<1.6e+01> : tensor<f32>} : () -> tensor<f32>
    %13 = "stablehlo.constant"() {value = dense<1.6e+01> : tensor<32x1xf32>} : () -> tensor<32x1xf32>
    %14 = "stablehlo.divide"(%10, %13) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %15 = "stablehlo.constant"() {value = dense<1.0e-06> : tensor<1xf32>} : () -> tensor<1xf32>
    %16 = "stablehlo.constant"() {value = dense<1.0e-06> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
    %17 = "stablehlo.constant"() {value = dense<1.0e-06> : tensor<f32>} : () -> tensor<f32>
    %18 = "stablehlo.constant"() {value = dense<1.0e-06> : tensor<32x1xf32>} : () -> tensor<32x1xf32>
    %19 = "stablehlo.add"(%14, %18) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %20 = "stablehlo.sqrt"(%19) : (tensor<32x1xf32>) -> tensor<32x1xf32>
    %21 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<1xf32>} : () -> tensor<1xf32>
    %22 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
    %23 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %24 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<32x1xf32>} : () -> tensor<32x1xf32>
    %25 = "stablehlo.divide"(%24, %20) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %26 = "stablehlo.reshape"(%25) : (tensor<32x1xf32>) -> tensor<32xf32>
    %27 = "stablehlo.reshape"(%arg1) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %28 = "stablehlo.convert"(%27) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %29 = "stablehlo.reshape"(%26) : (tensor<32xf32>) -> tensor<32x1xf32>
    %30 = "stablehlo.reshape"(%29) : (tensor<32x1xf32>) -> tensor<32xf32>
    %31 = "stablehlo.broadcast_in_dim"(%30) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %32 = "stablehlo.multiply"(%28, %31) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %33 = "stablehlo.reshape"(%arg2) : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %34 = "stablehlo.convert"(%33) : (tensor<1x16xbf16>) -> tensor<1x16xf32>
    %35 = "stablehlo.reshape"(%34) : (tensor<1x16xf32>) -> tensor<16xf32>
    %36 = "stablehlo.broadcast_in_dim"(%35) {broadcast_dimensions = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
    %37 = "stablehlo.multiply"(%32, %36) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %38 = "stablehlo.convert"(%37) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %39 = "stablehlo.reshape"(%arg3) : (tensor<256xbf16>) -> tensor<16x16xbf16>
    %40 = "stablehlo.dot_general"(%38, %39) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
    %41 = "stablehlo.reshape"(%arg4) : (tensor<128xbf16>) -> tensor<8x16xbf16>
    %42 = "stablehlo.dot_general"(%38, %41) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<32x16xbf16>, tensor<8x16xbf16>) -> tensor<32x8xbf16>
    %43 = "stablehlo.reshape"(%arg5) : (tensor<128xbf16>) -> tensor<8x16xbf16>
    %44 = "stablehlo.dot_general"(%38, %43) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<32x16xbf16>, tensor<8x16xbf16>) -> tensor<32x8xbf16>
    %45 = "stablehlo.concatenate"(%40, %42) {dimension = 1 : i64} : (tensor<32x16xbf16>, tensor<32x8xbf16>) -> tensor<32x24xbf16>
    %46 = "stablehlo.convert"(%45) : (tensor<32x24xbf16>) -> tensor<32x24xf32>
    %47 = "stablehlo.reshape"(%46) : (tensor<32x24xf32>) -> tensor<32x6x4xf32>
    %48 = "stablehlo.slice"(%47) {limit_indices = array<i64: 32, 6, 2>, start_indices = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<32x6x4xf32>) -> tensor<32x6x2xf32>
    %49 = "stablehlo.slice"(%47) {limit_indices = array<i64: 32, 6, 4>, start_indices = array<i64: 0, 0, 2>, strides = array<i64: 1, 1, 1>} : (tensor<32x6x4xf32>) -> tensor<32x6x2xf32>
    %50 = "stablehlo.reshape"(%arg6) : (tensor<32xf32>) -> tensor<16x2xf32>
    %51 = "stablehlo.reshape"(%arg17) : (tensor<32xi32>) -> tensor<32x1xi32>
    %52 = "stablehlo.gather"(%50, %51) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2>} : (tensor<16x2xf32>, tensor<32x1xi32>) -> tensor<32x2xf32>
    %53 = "stablehlo.broadcast_in_dim"(%52) {broadcast_dimensions = array<i64: 0, 2>} : (tensor<32x2xf32>) -> tensor<32x6x2xf32>
    %54 = "stablehlo.reshape"(%arg7) : (tensor<32xf32>) -> tensor<16x2xf32>
    %55 = "stablehlo.reshape"(%arg17) : (tensor<32xi32>) -> tensor<32x1xi32>
    %56 = "stablehlo.gather"(%54, %55) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2>} : (tensor<16x2xf32>, tensor<32x1xi32>) -> tensor<32x2xf32>
    %57 = "stablehlo.broadcast_in_dim"(%56) {broadcast_dimensions = array<i64: 0, 2>} : (tensor<32x2xf32>) -> tensor<32x6x2xf32>
    %58 = "stablehlo.multiply"(%48, %53) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %59 = "stablehlo.multiply"(%49, %57) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %60 = "stablehlo.subtract"(%58, %59) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %61 = "stablehlo.multiply"(%49, %53) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %62 = "stablehlo.multiply"(%48, %57) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %63 = "stablehlo.add"(%61, %62) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %64 = "stablehlo.concatenate"(%60, %63) {dimension = 2 : i64} : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x4xf32>
    %65 = "stablehlo.convert"(%64) : (tensor<32x6x4xf32>) -> tensor<32x6x4xbf16>
    %66 = "stablehlo.reshape"(%65) : (tensor<32x6x4xbf16>) -> tensor<32x24xbf16>
    %67 = "stablehlo.slice"(%66) {limit_indices = array<i64: 32, 16>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<32x24xbf16>) -> tensor<32x16xbf16>
    %68 = "stablehlo.reshape"(%67) : (tensor<32x16xbf16>) -> tensor<2x16x2x2x4xbf16>
    %69 = "stablehlo.transpose"(%68) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x16x2x2x4xbf16>) -> tensor<2x2x16x2x4xbf16>
    %70 = "stablehlo.reshape"(%69) : (tensor<2x2x16x2x4xbf16>) -> tensor<4x32x4xbf16>
    %71 = "stablehlo.reshape"(%65) : (tensor<32x6x4xbf16>) -> tensor<32x24xbf16>
    %72 = "stablehlo.slice"(%71) {limit_indices = array<i64: 32, 24>, start_indices = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<32x24xbf16>) -> tensor<32x8xbf16>
    %73 = "stablehlo.reshape"(%72) : (tensor<32x8xbf16>) -> tensor<2x16x2x1x4xbf16>
    %74 = "stablehlo.transpose"(%73) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x16x2x1x4xbf16>) -> tensor<2x2x16x1x4xbf16>
    %75 = "stablehlo.reshape"(%74) : (tensor<2x2x16x1x4xbf16>) -> tensor<4x16x4xbf16>
    %76 = "stablehlo.reshape"(%44) : (tensor<32x8xbf16>) -> tensor<2x16x2x1x4xbf16>
    %77 = "stablehlo.transpose"(%76) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x16x2x1x4xbf16>) -> tensor<2x2x16x1x4xbf16>
    %78 = "stablehlo.reshape"(%77) : (tensor<2x2x16x1x4xbf16>) -> tensor<4x16x4xbf16>
    %79 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<4x32x4xbf16>} : () -> tensor<4x32x4xbf16>
    %80 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<4x32xf32>} : () -> tensor<4x32xf32>
    %81 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %82 = "stablehlo.constant"() {value = dense<16> : tensor<i32>} : () -> tensor<i32>
    %83 = "stablehlo.multiply"(%81, %82) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %84 = "stablehlo.add"(%83, %81) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %85 = "stablehlo.constant"() {value = dense<2> : tensor<i32>} : () -> tensor<i32>
    %86 = "stablehlo.multiply"(%84, %85) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %87 = "stablehlo.dot_general"(%70, %75) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>} : (tensor<4x32x4xbf16>, tensor<4x16x4xbf16>) -> tensor<4x32x16xf32>
    %88 = "stablehlo.constant"() {value = dense<5.0e-01> : tensor<4x32x16xf32>} : () -> tensor<4x32x16xf32>
    %89 = "stablehlo.multiply"(%87, %88) : (tensor<4x32x16xf32>, tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %90 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<16xi32>
    %91 = "stablehlo.broadcast_in_dim"(%84) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<16xi32>
    %92 = "stablehlo.add"(%90, %91) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
    %93 = "stablehlo.broadcast_in_dim"(%92) {broadcast_dimensions = array<i64: 1>} : (tensor<16xi32>) -> tensor<2x16x16xi32>
    %94 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<16xi32>
    %95 = "stablehlo.constant"() {value = dense<0> : tensor<16xi32>} : () -> tensor<16xi32>
    %96 = "stablehlo.add"(%94, %95) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
    %97 = "stablehlo.broadcast_in_dim"(%96) {broadcast_dimensions = array<i64: 2>} : (tensor<16xi32>) -> tensor<2x16x16xi32>
    %98 = "stablehlo.compare"(%97, %93) {comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<2x16x16xi32>, tensor<2x16x16xi32>) -> tensor<2x16x16xi1>
    %99 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<2x2x16x2x16xf32>} : () -> tensor<2x2x16x2x16xf32>
    %100 = "stablehlo.broadcast_in_dim"(%98) {broadcast_dimensions = array<i64: 0, 2, 4>} : (tensor<2x16x16xi1>) -> tensor<2x2x16x2x16xi1>
    %101 = "stablehlo.reshape"(%89) : (tensor<4x32x16xf32>) -> tensor<2x2x16x2x16xf32>
    %102 = "stablehlo.select"(%100, %101, %99) : (tensor<2x2x16x2x16xi1>, tensor<2x2x16x2x16xf32>, tensor<2x2x16x2x16xf32>) -> tensor<2x2x16x2x16xf32>
    %103 = "stablehlo.reshape"(%102) : (tensor<2x2x16x2x16xf32>) -> tensor<4x32x16xf32>
    %104 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %105 = "stablehlo.reduce"(%103, %104) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.maximum"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 2>} : (tensor<4x32x16xf32>, tensor<f32>) -> tensor<4x32xf32>
    %106 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<4x32xf32>} : () -> tensor<4x32xf32>
    %107 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<4x32xf32>} : () -> tensor<4x32xf32>
    %108 = "stablehlo.compare"(%105, %107) {comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xi1>
    %109 = "stablehlo.select"(%108, %105, %80) : (tensor<4x32xi1>, tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %110 = "stablehlo.broadcast_in_dim"(%109) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x32xf32>) -> tensor<4x32x16xf32>
    %111 = "stablehlo.subtract"(%103, %110) : (tensor<4x32x16xf32>, tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %112 = "stablehlo.exponential"(%111) : (tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %113 = "stablehlo.reduce"(%112, %7) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 2>} : (tensor<4x32x16xf32>, tensor<f32>) -> tensor<4x32xf32>
    %114 = "stablehlo.select"(%108, %113, %106) : (tensor<4x32xi1>, tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %115 = "stablehlo.convert"(%112) : (tensor<4x32x16xf32>) -> tensor<4x32x16xbf16>
    %116 = "stablehlo.dot_general"(%115, %78) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>} : (tensor<4x32x16xbf16>, tensor<4x16x4xbf16>) -> tensor<4x32x4xf32>
    %117 = "stablehlo.broadcast_in_dim"(%114) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x32xf32>) -> tensor<4x32x4xf32>
    %118 = "stablehlo.divide"(%116, %117) : (tensor<4x32x4xf32>, tensor<4x32x4xf32>) -> tensor<4x32x4xf32>
    %119 = "stablehlo.log"(%114) : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %120 = "stablehlo.add"(%109, %119) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %121 = "stablehlo.convert"(%118) : (tensor<4x32x4xf32>) -> tensor<4x32x4xbf16>
    %122 = "stablehlo.reshape"(%121) : (tensor<4x32x4xbf16>) -> tensor<2x2x16x2x4xbf16>
    %123 = "stablehlo.transpose"(%122) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x2x16x2x4xbf16>) -> tensor<2x16x2x2x4xbf16>
    %124 = "stablehlo.reshape"(%123) : (tensor<2x16x2x2x4xbf16>) -> tensor<32x16xbf16>
    %125 = "stablehlo.reshape"(%120) : (tensor<4x32xf32>) -> tensor<2x2x16x2xf32>
    %126 = "stablehlo.transpose"(%125) {permutation = array<i64: 1, 3, 0, 2>} : (tensor<2x2x16x2xf32>) -> tensor<2x2x2x16xf32>
    %127 = "stablehlo.reshape"(%arg8) : (tensor<256xbf16>) -> tensor<16x16xbf16>
    %128 = "stablehlo.dot_general"(%124, %127) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
    %129 = "stablehlo.convert"(%128) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %130 = "stablehlo.reshape"(%arg1) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %131 = "stablehlo.convert"(%130) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %132 = "stablehlo.add"(%129, %131) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %133 = "stablehlo.convert"(%132) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %134 = "stablehlo.convert"(%133) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %135 = "stablehlo.convert"(%133) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %136 = "stablehlo.multiply"(%134, %135) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %137 = "stablehlo.reduce"(%136, %7) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<32x16xf32>, tensor<f32>) -> tensor<32xf32>
    %138 = "stablehlo.reshape"(%137) : (tensor<32xf32>) -> tensor<32x1xf32>
    %139 = "stablehlo.divide"(%138, %13) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %140 = "stablehlo.add"(%139, %18) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %141 = "stablehlo.sqrt"(%140) : (tensor<32x1xf32>) -> tensor<32x1xf32>
    %142 = "stablehlo.divide"(%24, %141) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %143 = "stablehlo.reshape"(%142) : (tensor<32x1xf32>) -> tensor<32xf32>
    %144 = "stablehlo.convert"(%133) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %145 = "stablehlo.reshape"(%143) : (tensor<32xf32>) -> tensor<32x1xf32>
    %146 = "stablehlo.reshape"(%145) : (tensor<32x1xf32>) -> tensor<32xf32>
    %147 = "stablehlo.broadcast_in_dim"(%146) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %148 = "stablehlo.multiply"(%144, %147) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %149 = "stablehlo.reshape"(%arg9) : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %150 = "stablehlo.convert"(%149) : (tensor<1x16xbf16>) -> tensor<1x16xf32>
    %151 = "stablehlo.reshape"(%150) : (tensor<1x16xf32>) -> tensor<16xf32>
    %152 = "stablehlo.broadcast_in_dim"(%151) {broadcast_dimensions = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
    %153 = "stablehlo.multiply"(%148, %152) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %154 = "stablehlo.convert"(%153) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %155 = "stablehlo.reshape"(%arg10) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %156 = "stablehlo.dot_general"(%154, %155) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<32x32xbf16>
    %157 = "stablehlo.reshape"(%arg11) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %158 = "stablehlo.dot_general"(%154, %157) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<32x32xbf16>
    %159 = "stablehlo.convert"(%156) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %160 = "stablehlo.logistic"(%159) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %161 = "stablehlo.convert"(%156) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %162 = "stablehlo.multiply"(%161, %160) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %163 = "stablehlo.convert"(%158) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %164 = "stablehlo.multiply"(%162, %163) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %165 = "stablehlo.convert"(%164) : (tensor<32x32xf32>) -> tensor<32x32xbf16>
    %166 = "stablehlo.reshape"(%arg12) : (tensor<512xbf16>) -> tensor<16x32xbf16>
    %167 = "stablehlo.dot_general"(%165, %166) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<32x32xbf16>, tensor<16x32xbf16>) -> tensor<32x16xbf16>
    %168 = "stablehlo.convert"(%133) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %169 = "stablehlo.convert"(%167) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %170 = "stablehlo.add"(%168, %169) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %171 = "stablehlo.convert"(%170) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %172 = "stablehlo.concatenate"(%156, %158) {dimension = 1 : i64} : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x64xbf16>
    %173 = "stablehlo.optimization_barrier"(%172) : (tensor<32x64xbf16>) -> tensor<32x64xbf16>
    %174 = "stablehlo.reshape"(%173) : (tensor<32x64xbf16>) -> tensor<2048xbf16>
    %175 = "stablehlo.reshape"(%174) : (tensor<2048xbf16>) -> tensor<32x64xbf16>
    %176 = "stablehlo.slice"(%175) {limit_indices = array<i64: 32, 32>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<32x64xbf16>) -> tensor<32x32xbf16>
    %177 = "stablehlo.convert"(%176) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %178 = "stablehlo.logistic"(%177) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %179 = "stablehlo.reshape"(%173) : (tensor<32x64xbf16>) -> tensor<2048xbf16>
    %180 = "stablehlo.reshape"(%179) : (tensor<2048xbf16>) -> tensor<32x64xbf16>
    %181 = "stablehlo.slice"(%180) {limit_indices = array<i64: 32, 32>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<32x64xbf16>) -> tensor<32x32xbf16>
    %182 = "stablehlo.convert"(%181) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %183 = "stablehlo.multiply"(%182, %178) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %184 = "stablehlo.reshape"(%173) : (tensor<32x64xbf16>) -> tensor<2048xbf16>
    %185 = "stablehlo.reshape"(%184) : (tensor<2048xbf16>) -> tensor<32x64xbf16>
    %186 = "stablehlo.slice"(%185) {limit_indices = array<i64: 32, 64>, start_indices = array<i64: 0, 32>, strides = array<i64: 1, 1>} : (tensor<32x64xbf16>) -> tensor<32x32xbf16>
    %187 = "stablehlo.convert"(%186) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %188 = "stablehlo.multiply"(%183, %187) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %189 = "stablehlo.convert"(%188) : (tensor<32x32xf32>) -> tensor<32x32xbf16>
    %190 = "stablehlo.dot_general"(%1, %189) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<32x16xbf16>, tensor<32x32xbf16>) -> tensor<16x32xf32>
    %191 = "stablehlo.reshape"(%arg12) : (tensor<512xbf16>) -> tensor<16x32xbf16>
    %192 = "stablehlo.dot_general"(%1, %191) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<32x16xbf16>, tensor<16x32xbf16>) -> tensor<32x32xbf16>
    %193 = "stablehlo.reshape"(%173) : (tensor<32x64xbf16>) -> tensor<2048xbf16>
    %194 = "stablehlo.reshape"(%193) : (tensor<2048xbf16>) -> tensor<32x64xbf16>
    %195 = "stablehlo.slice"(%194) {limit_indices = array<i64: 32, 32>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<32x64xbf16>) -> tensor<32x32xbf16>
    %196 = "stablehlo.convert"(%195) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %197 = "stablehlo.logistic"(%196) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %198 = "stablehlo.reshape"(%173) : (tensor<32x64xbf16>) -> tensor<2048xbf16>
    %199 = "stablehlo.reshape"(%198) : (tensor<2048xbf16>) -> tensor<32x64xbf16>
    %200 = "stablehlo.slice"(%199) {limit_indices = array<i64: 32, 32>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<32x64xbf16>) -> tensor<32x32xbf16>
    %201 = "stablehlo.convert"(%200) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %202 = "stablehlo.multiply"(%201, %197) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %203 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<32x32xf32>} : () -> tensor<32x32xf32>
    %204 = "stablehlo.subtract"(%203, %197) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %205 = "stablehlo.multiply"(%202, %204) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %206 = "stablehlo.add"(%197, %205) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %207 = "stablehlo.convert"(%192) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %208 = "stablehlo.reshape"(%173) : (tensor<32x64xbf16>) -> tensor<2048xbf16>
    %209 = "stablehlo.reshape"(%208) : (tensor<2048xbf16>) -> tensor<32x64xbf16>
    %210 = "stablehlo.slice"(%209) {limit_indices = array<i64: 32, 64>, start_indices = array<i64: 0, 32>, strides = array<i64: 1, 1>} : (tensor<32x64xbf16>) -> tensor<32x32xbf16>
    %211 = "stablehlo.convert"(%210) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %212 = "stablehlo.multiply"(%207, %211) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %213 = "stablehlo.multiply"(%212, %206) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %214 = "stablehlo.convert"(%192) : (tensor<32x32xbf16>) -> tensor<32x32xf32>
    %215 = "stablehlo.multiply"(%214, %202) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %216 = "stablehlo.convert"(%213) : (tensor<32x32xf32>) -> tensor<32x32xbf16>
    %217 = "stablehlo.convert"(%215) : (tensor<32x32xf32>) -> tensor<32x32xbf16>
    %218 = "stablehlo.optimization_barrier"(%133) : (tensor<32x16xbf16>) -> tensor<32x16xbf16>
    %219 = "stablehlo.convert"(%218) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %220 = "stablehlo.reshape"(%143) : (tensor<32xf32>) -> tensor<32x1xf32>
    %221 = "stablehlo.reshape"(%220) : (tensor<32x1xf32>) -> tensor<32xf32>
    %222 = "stablehlo.broadcast_in_dim"(%221) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %223 = "stablehlo.multiply"(%219, %222) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %224 = "stablehlo.reshape"(%arg9) : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %225 = "stablehlo.convert"(%224) : (tensor<1x16xbf16>) -> tensor<1x16xf32>
    %226 = "stablehlo.reshape"(%225) : (tensor<1x16xf32>) -> tensor<16xf32>
    %227 = "stablehlo.broadcast_in_dim"(%226) {broadcast_dimensions = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
    %228 = "stablehlo.multiply"(%223, %227) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %229 = "stablehlo.convert"(%228) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %230 = "stablehlo.dot_general"(%216, %229) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<32x32xbf16>, tensor<32x16xbf16>) -> tensor<32x16xf32>
    %231 = "stablehlo.dot_general"(%217, %229) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<32x32xbf16>, tensor<32x16xbf16>) -> tensor<32x16xf32>
    %232 = "stablehlo.reshape"(%arg10) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %233 = "stablehlo.dot_general"(%216, %232) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<32x32xbf16>, tensor<32x16xbf16>) -> tensor<32x16xbf16>
    %234 = "stablehlo.reshape"(%arg11) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %235 = "stablehlo.dot_general"(%217, %234) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<32x32xbf16>, tensor<32x16xbf16>) -> tensor<32x16xf32>
    %236 = "stablehlo.convert"(%233) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %237 = "stablehlo.add"(%236, %235) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %238 = "stablehlo.convert"(%237) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %239 = "stablehlo.convert"(%218) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %240 = "stablehlo.reshape"(%143) : (tensor<32xf32>) -> tensor<32x1xf32>
    %241 = "stablehlo.reshape"(%240) : (tensor<32x1xf32>) -> tensor<32xf32>
    %242 = "stablehlo.broadcast_in_dim"(%241) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %243 = "stablehlo.multiply"(%239, %242) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %244 = "stablehlo.convert"(%238) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %245 = "stablehlo.reshape"(%arg9) : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %246 = "stablehlo.convert"(%245) : (tensor<1x16xbf16>) -> tensor<1x16xf32>
    %247 = "stablehlo.reshape"(%246) : (tensor<1x16xf32>) -> tensor<16xf32>
    %248 = "stablehlo.broadcast_in_dim"(%247) {broadcast_dimensions = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
    %249 = "stablehlo.multiply"(%244, %248) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %250 = "stablehlo.multiply"(%249, %243) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %251 = "stablehlo.reduce"(%250, %7) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<32x16xf32>, tensor<f32>) -> tensor<32xf32>
    %252 = "stablehlo.reshape"(%251) : (tensor<32xf32>) -> tensor<32x1xf32>
    %253 = "stablehlo.divide"(%252, %13) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %254 = "stablehlo.reshape"(%253) : (tensor<32x1xf32>) -> tensor<32xf32>
    %255 = "stablehlo.broadcast_in_dim"(%254) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %256 = "stablehlo.multiply"(%243, %255) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %257 = "stablehlo.subtract"(%249, %256) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %258 = "stablehlo.reshape"(%143) : (tensor<32xf32>) -> tensor<32x1xf32>
    %259 = "stablehlo.reshape"(%258) : (tensor<32x1xf32>) -> tensor<32xf32>
    %260 = "stablehlo.broadcast_in_dim"(%259) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %261 = "stablehlo.multiply"(%257, %260) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %262 = "stablehlo.convert"(%1) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %263 = "stablehlo.add"(%261, %262) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %264 = "stablehlo.convert"(%238) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %265 = "stablehlo.multiply"(%264, %243) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %266 = "stablehlo.reduce"(%265, %7) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<32x16xf32>, tensor<f32>) -> tensor<16xf32>
    %267 = "stablehlo.convert"(%263) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %268 = "stablehlo.dot_general"(%267, %124) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<16x16xf32>
    %269 = "stablehlo.reshape"(%arg8) : (tensor<256xbf16>) -> tensor<16x16xbf16>
    %270 = "stablehlo.dot_general"(%267, %269) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
    %271 = "stablehlo.reshape"(%65) : (tensor<32x6x4xbf16>) -> tensor<32x24xbf16>
    %272 = "stablehlo.slice"(%271) {limit_indices = array<i64: 32, 16>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<32x24xbf16>) -> tensor<32x16xbf16>
    %273 = "stablehlo.reshape"(%272) : (tensor<32x16xbf16>) -> tensor<2x16x2x2x4xbf16>
    %274 = "stablehlo.transpose"(%273) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x16x2x2x4xbf16>) -> tensor<2x2x16x2x4xbf16>
    %275 = "stablehlo.reshape"(%274) : (tensor<2x2x16x2x4xbf16>) -> tensor<4x32x4xbf16>
    %276 = "stablehlo.reshape"(%65) : (tensor<32x6x4xbf16>) -> tensor<32x24xbf16>
    %277 = "stablehlo.slice"(%276) {limit_indices = array<i64: 32, 24>, start_indices = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<32x24xbf16>) -> tensor<32x8xbf16>
    %278 = "stablehlo.reshape"(%277) : (tensor<32x8xbf16>) -> tensor<2x16x2x1x4xbf16>
    %279 = "stablehlo.transpose"(%278) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x16x2x1x4xbf16>) -> tensor<2x2x16x1x4xbf16>
    %280 = "stablehlo.reshape"(%279) : (tensor<2x2x16x1x4xbf16>) -> tensor<4x16x4xbf16>
    %281 = "stablehlo.reshape"(%44) : (tensor<32x8xbf16>) -> tensor<2x16x2x1x4xbf16>
    %282 = "stablehlo.transpose"(%281) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x16x2x1x4xbf16>) -> tensor<2x2x16x1x4xbf16>
    %283 = "stablehlo.reshape"(%282) : (tensor<2x2x16x1x4xbf16>) -> tensor<4x16x4xbf16>
    %284 = "stablehlo.convert"(%270) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %285 = "stablehlo.convert"(%124) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %286 = "stablehlo.multiply"(%284, %285) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %287 = "stablehlo.reshape"(%286) : (tensor<32x16xf32>) -> tensor<32x4x4xf32>
    %288 = "stablehlo.reduce"(%287, %7) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 2>} : (tensor<32x4x4xf32>, tensor<f32>) -> tensor<32x4xf32>
    %289 = "stablehlo.reshape"(%288) : (tensor<32x4xf32>) -> tensor<2x16x2x2xf32>
    %290 = "stablehlo.transpose"(%289) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x2x2xf32>) -> tensor<2x2x16x2xf32>
    %291 = "stablehlo.reshape"(%290) : (tensor<2x2x16x2xf32>) -> tensor<4x32xf32>
    %292 = "stablehlo.reshape"(%126) : (tensor<2x2x2x16xf32>) -> tensor<4x32xf32>
    %293 = "stablehlo.reshape"(%292) : (tensor<4x32xf32>) -> tensor<2x2x2x16xf32>
    %294 = "stablehlo.transpose"(%293) {permutation = array<i64: 2, 0, 3, 1>} : (tensor<2x2x2x16xf32>) -> tensor<2x2x16x2xf32>
    %295 = "stablehlo.reshape"(%294) : (tensor<2x2x16x2xf32>) -> tensor<4x32xf32>
    %296 = "stablehlo.reshape"(%270) : (tensor<32x16xbf16>) -> tensor<2x16x2x2x4xbf16>
    %297 = "stablehlo.transpose"(%296) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x16x2x2x4xbf16>) -> tensor<2x2x16x2x4xbf16>
    %298 = "stablehlo.reshape"(%297) : (tensor<2x2x16x2x4xbf16>) -> tensor<4x32x4xbf16>
    %299, %300, %301, %302 = "stablehlo.optimization_barrier"(%275, %280, %283, %298) : (tensor<4x32x4xbf16>, tensor<4x16x4xbf16>, tensor<4x16x4xbf16>, tensor<4x32x4xbf16>) -> (tensor<4x32x4xbf16>, tensor<4x16x4xbf16>, tensor<4x16x4xbf16>, tensor<4x32x4xbf16>)
    %303 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<4x16x4xf32>} : () -> tensor<4x16x4xf32>
    %304 = "stablehlo.multiply"(%81, %82) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %305 = "stablehlo.add"(%304, %81) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %306 = "stablehlo.multiply"(%305, %85) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %307 = "stablehlo.dot_general"(%299, %300) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>} : (tensor<4x32x4xbf16>, tensor<4x16x4xbf16>) -> tensor<4x32x16xf32>
    %308 = "stablehlo.multiply"(%307, %88) : (tensor<4x32x16xf32>, tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %309 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<16xi32>
    %310 = "stablehlo.broadcast_in_dim"(%305) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<16xi32>
    %311 = "stablehlo.add"(%309, %310) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
    %312 = "stablehlo.broadcast_in_dim"(%311) {broadcast_dimensions = array<i64: 1>} : (tensor<16xi32>) -> tensor<2x16x16xi32>
    %313 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<16xi32>
    %314 = "stablehlo.add"(%313, %95) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
    %315 = "stablehlo.broadcast_in_dim"(%314) {broadcast_dimensions = array<i64: 2>} : (tensor<16xi32>) -> tensor<2x16x16xi32>
    %316 = "stablehlo.compare"(%315, %312) {comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<2x16x16xi32>, tensor<2x16x16xi32>) -> tensor<2x16x16xi1>
    %317 = "stablehlo.broadcast_in_dim"(%316) {broadcast_dimensions = array<i64: 0, 2, 4>} : (tensor<2x16x16xi1>) -> tensor<2x2x16x2x16xi1>
    %318 = "stablehlo.reshape"(%308) : (tensor<4x32x16xf32>) -> tensor<2x2x16x2x16xf32>
    %319 = "stablehlo.select"(%317, %318, %99) : (tensor<2x2x16x2x16xi1>, tensor<2x2x16x2x16xf32>, tensor<2x2x16x2x16xf32>) -> tensor<2x2x16x2x16xf32>
    %320 = "stablehlo.reshape"(%319) : (tensor<2x2x16x2x16xf32>) -> tensor<4x32x16xf32>
    %321 = "stablehlo.multiply"(%305, %85) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %322 = "stablehlo.broadcast_in_dim"(%295) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x32xf32>) -> tensor<4x32x16xf32>
    %323 = "stablehlo.subtract"(%320, %322) : (tensor<4x32x16xf32>, tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %324 = "stablehlo.exponential"(%323) : (tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %325 = "stablehlo.multiply"(%305, %85) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %326 = "stablehlo.multiply"(%305, %85) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %327 = "stablehlo.dot_general"(%302, %301) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>} : (tensor<4x32x4xbf16>, tensor<4x16x4xbf16>) -> tensor<4x32x16xf32>
    %328 = "stablehlo.multiply"(%305, %85) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %329 = "stablehlo.broadcast_in_dim"(%291) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x32xf32>) -> tensor<4x32x16xf32>
    %330 = "stablehlo.subtract"(%327, %329) : (tensor<4x32x16xf32>, tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %331 = "stablehlo.multiply"(%324, %330) : (tensor<4x32x16xf32>, tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %332 = "stablehlo.multiply"(%331, %88) : (tensor<4x32x16xf32>, tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
    %333 = "stablehlo.convert"(%332) : (tensor<4x32x16xf32>) -> tensor<4x32x16xbf16>
    %334 = "stablehlo.dot_general"(%333, %300) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>} : (tensor<4x32x16xbf16>, tensor<4x16x4xbf16>) -> tensor<4x32x4xf32>
    %335 = "stablehlo.convert"(%334) : (tensor<4x32x4xf32>) -> tensor<4x32x4xbf16>
    %336 = "stablehlo.convert"(%332) : (tensor<4x32x16xf32>) -> tensor<4x32x16xbf16>
    %337 = "stablehlo.dot_general"(%336, %299) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<4x32x16xbf16>, tensor<4x32x4xbf16>) -> tensor<4x16x4xf32>
    %338 = "stablehlo.add"(%303, %337) : (tensor<4x16x4xf32>, tensor<4x16x4xf32>) -> tensor<4x16x4xf32>
    %339 = "stablehlo.convert"(%324) : (tensor<4x32x16xf32>) -> tensor<4x32x16xbf16>
    %340 = "stablehlo.dot_general"(%339, %302) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<4x32x16xbf16>, tensor<4x32x4xbf16>) -> tensor<4x16x4xf32>
    %341 = "stablehlo.add"(%303, %340) : (tensor<4x16x4xf32>, tensor<4x16x4xf32>) -> tensor<4x16x4xf32>
    %342 = "stablehlo.reshape"(%335) : (tensor<4x32x4xbf16>) -> tensor<2x2x16x2x4xbf16>
    %343 = "stablehlo.transpose"(%342) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x2x16x2x4xbf16>) -> tensor<2x16x2x2x4xbf16>
    %344 = "stablehlo.reshape"(%343) : (tensor<2x16x2x2x4xbf16>) -> tensor<32x16xbf16>
    %345 = "stablehlo.reshape"(%338) : (tensor<4x16x4xf32>) -> tensor<2x2x16x1x4xf32>
    %346 = "stablehlo.transpose"(%345) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x2x16x1x4xf32>) -> tensor<2x16x2x1x4xf32>
    %347 = "stablehlo.reshape"(%346) : (tensor<2x16x2x1x4xf32>) -> tensor<32x8xf32>
    %348 = "stablehlo.convert"(%347) : (tensor<32x8xf32>) -> tensor<32x8xbf16>
    %349 = "stablehlo.reshape"(%341) : (tensor<4x16x4xf32>) -> tensor<2x2x16x1x4xf32>
    %350 = "stablehlo.transpose"(%349) {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x2x16x1x4xf32>) -> tensor<2x16x2x1x4xf32>
    %351 = "stablehlo.reshape"(%350) : (tensor<2x16x2x1x4xf32>) -> tensor<32x8xf32>
    %352 = "stablehlo.convert"(%351) : (tensor<32x8xf32>) -> tensor<32x8xbf16>
    %353 = "stablehlo.concatenate"(%344, %348) {dimension = 1 : i64} : (tensor<32x16xbf16>, tensor<32x8xbf16>) -> tensor<32x24xbf16>
    %354 = "stablehlo.convert"(%353) : (tensor<32x24xbf16>) -> tensor<32x24xf32>
    %355 = "stablehlo.reshape"(%354) : (tensor<32x24xf32>) -> tensor<32x6x4xf32>
    %356 = "stablehlo.slice"(%355) {limit_indices = array<i64: 32, 6, 2>, start_indices = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<32x6x4xf32>) -> tensor<32x6x2xf32>
    %357 = "stablehlo.slice"(%355) {limit_indices = array<i64: 32, 6, 4>, start_indices = array<i64: 0, 0, 2>, strides = array<i64: 1, 1, 1>} : (tensor<32x6x4xf32>) -> tensor<32x6x2xf32>
    %358 = "stablehlo.reshape"(%arg6) : (tensor<32xf32>) -> tensor<16x2xf32>
    %359 = "stablehlo.reshape"(%arg17) : (tensor<32xi32>) -> tensor<32x1xi32>
    %360 = "stablehlo.gather"(%358, %359) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2>} : (tensor<16x2xf32>, tensor<32x1xi32>) -> tensor<32x2xf32>
    %361 = "stablehlo.broadcast_in_dim"(%360) {broadcast_dimensions = array<i64: 0, 2>} : (tensor<32x2xf32>) -> tensor<32x6x2xf32>
    %362 = "stablehlo.reshape"(%arg7) : (tensor<32xf32>) -> tensor<16x2xf32>
    %363 = "stablehlo.reshape"(%arg17) : (tensor<32xi32>) -> tensor<32x1xi32>
    %364 = "stablehlo.gather"(%362, %363) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2>} : (tensor<16x2xf32>, tensor<32x1xi32>) -> tensor<32x2xf32>
    %365 = "stablehlo.broadcast_in_dim"(%364) {broadcast_dimensions = array<i64: 0, 2>} : (tensor<32x2xf32>) -> tensor<32x6x2xf32>
    %366 = "stablehlo.negate"(%365) : (tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %367 = "stablehlo.multiply"(%356, %361) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %368 = "stablehlo.multiply"(%357, %366) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %369 = "stablehlo.subtract"(%367, %368) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %370 = "stablehlo.multiply"(%357, %361) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %371 = "stablehlo.multiply"(%356, %366) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %372 = "stablehlo.add"(%370, %371) : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x2xf32>
    %373 = "stablehlo.concatenate"(%369, %372) {dimension = 2 : i64} : (tensor<32x6x2xf32>, tensor<32x6x2xf32>) -> tensor<32x6x4xf32>
    %374 = "stablehlo.convert"(%373) : (tensor<32x6x4xf32>) -> tensor<32x6x4xbf16>
    %375 = "stablehlo.reshape"(%arg1) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %376 = "stablehlo.convert"(%375) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %377 = "stablehlo.reshape"(%26) : (tensor<32xf32>) -> tensor<32x1xf32>
    %378 = "stablehlo.reshape"(%377) : (tensor<32x1xf32>) -> tensor<32xf32>
    %379 = "stablehlo.broadcast_in_dim"(%378) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %380 = "stablehlo.multiply"(%376, %379) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %381 = "stablehlo.reshape"(%arg2) : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %382 = "stablehlo.convert"(%381) : (tensor<1x16xbf16>) -> tensor<1x16xf32>
    %383 = "stablehlo.reshape"(%382) : (tensor<1x16xf32>) -> tensor<16xf32>
    %384 = "stablehlo.broadcast_in_dim"(%383) {broadcast_dimensions = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
    %385 = "stablehlo.multiply"(%380, %384) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %386 = "stablehlo.convert"(%385) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %387 = "stablehlo.reshape"(%374) : (tensor<32x6x4xbf16>) -> tensor<32x24xbf16>
    %388 = "stablehlo.slice"(%387) {limit_indices = array<i64: 32, 16>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<32x24xbf16>) -> tensor<32x16xbf16>
    %389 = "stablehlo.dot_general"(%388, %386) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<16x16xf32>
    %390 = "stablehlo.reshape"(%374) : (tensor<32x6x4xbf16>) -> tensor<32x24xbf16>
    %391 = "stablehlo.slice"(%390) {limit_indices = array<i64: 32, 24>, start_indices = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<32x24xbf16>) -> tensor<32x8xbf16>
    %392 = "stablehlo.dot_general"(%391, %386) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
    %393 = "stablehlo.dot_general"(%352, %386) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
    %394 = "stablehlo.reshape"(%374) : (tensor<32x6x4xbf16>) -> tensor<32x24xbf16>
    %395 = "stablehlo.slice"(%394) {limit_indices = array<i64: 32, 16>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<32x24xbf16>) -> tensor<32x16xbf16>
    %396 = "stablehlo.reshape"(%arg3) : (tensor<256xbf16>) -> tensor<16x16xbf16>
    %397 = "stablehlo.dot_general"(%395, %396) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
    %398 = "stablehlo.reshape"(%374) : (tensor<32x6x4xbf16>) -> tensor<32x24xbf16>
    %399 = "stablehlo.slice"(%398) {limit_indices = array<i64: 32, 24>, start_indices = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<32x24xbf16>) -> tensor<32x8xbf16>
    %400 = "stablehlo.reshape"(%arg4) : (tensor<128xbf16>) -> tensor<8x16xbf16>
    %401 = "stablehlo.dot_general"(%399, %400) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<32x8xbf16>, tensor<8x16xbf16>) -> tensor<32x16xf32>
    %402 = "stablehlo.convert"(%397) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %403 = "stablehlo.add"(%402, %401) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %404 = "stablehlo.convert"(%403) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %405 = "stablehlo.reshape"(%arg5) : (tensor<128xbf16>) -> tensor<8x16xbf16>
    %406 = "stablehlo.dot_general"(%352, %405) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<32x8xbf16>, tensor<8x16xbf16>) -> tensor<32x16xf32>
    %407 = "stablehlo.convert"(%404) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %408 = "stablehlo.add"(%407, %406) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %409 = "stablehlo.convert"(%408) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %410 = "stablehlo.reshape"(%arg1) : (tensor<512xbf16>) -> tensor<32x16xbf16>
    %411 = "stablehlo.convert"(%410) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %412 = "stablehlo.reshape"(%26) : (tensor<32xf32>) -> tensor<32x1xf32>
    %413 = "stablehlo.reshape"(%412) : (tensor<32x1xf32>) -> tensor<32xf32>
    %414 = "stablehlo.broadcast_in_dim"(%413) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %415 = "stablehlo.multiply"(%411, %414) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %416 = "stablehlo.convert"(%409) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %417 = "stablehlo.reshape"(%arg2) : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %418 = "stablehlo.convert"(%417) : (tensor<1x16xbf16>) -> tensor<1x16xf32>
    %419 = "stablehlo.reshape"(%418) : (tensor<1x16xf32>) -> tensor<16xf32>
    %420 = "stablehlo.broadcast_in_dim"(%419) {broadcast_dimensions = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
    %421 = "stablehlo.multiply"(%416, %420) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %422 = "stablehlo.multiply"(%421, %415) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %423 = "stablehlo.reduce"(%422, %7) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<32x16xf32>, tensor<f32>) -> tensor<32xf32>
    %424 = "stablehlo.reshape"(%423) : (tensor<32xf32>) -> tensor<32x1xf32>
    %425 = "stablehlo.divide"(%424, %13) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %426 = "stablehlo.reshape"(%425) : (tensor<32x1xf32>) -> tensor<32xf32>
    %427 = "stablehlo.broadcast_in_dim"(%426) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %428 = "stablehlo.multiply"(%415, %427) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %429 = "stablehlo.subtract"(%421, %428) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %430 = "stablehlo.reshape"(%26) : (tensor<32xf32>) -> tensor<32x1xf32>
    %431 = "stablehlo.reshape"(%430) : (tensor<32x1xf32>) -> tensor<32xf32>
    %432 = "stablehlo.broadcast_in_dim"(%431) {broadcast_dimensions = array<i64: 0>} : (tensor<32xf32>) -> tensor<32x16xf32>
    %433 = "stablehlo.multiply"(%429, %432) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %434 = "stablehlo.convert"(%267) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %435 = "stablehlo.add"(%433, %434) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %436 = "stablehlo.convert"(%409) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %437 = "stablehlo.multiply"(%436, %415) : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %438 = "stablehlo.reduce"(%437, %7) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<32x16xf32>, tensor<f32>) -> tensor<16xf32>
    %439 = "stablehlo.convert"(%435) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %440 = "stablehlo.reshape"(%190) : (tensor<16x32xf32>) -> tensor<512xf32>
    %441 = "stablehlo.reshape"(%230) : (tensor<32x16xf32>) -> tensor<512xf32>
    %442 = "stablehlo.reshape"(%231) : (tensor<32x16xf32>) -> tensor<512xf32>
    %443 = "stablehlo.reshape"(%268) : (tensor<16x16xf32>) -> tensor<256xf32>
    %444 = "stablehlo.reshape"(%389) : (tensor<16x16xf32>) -> tensor<256xf32>
    %445 = "stablehlo.reshape"(%392) : (tensor<8x16xf32>) -> tensor<128xf32>
    %446 = "stablehlo.reshape"(%393) : (tensor<8x16xf32>) -> tensor<128xf32>
    "func.return"(%440, %441, %442, %266, %443, %444, %445, %446, %438, %171, %439) : (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<16xf32>, tensor<256xf32>, tensor<256xf32>, tensor<128xf32>, tensor<128xf32>, tensor<16xf32>, tensor<32x16xbf16>, tensor<32x16xbf16>) -> ()
  }
}
